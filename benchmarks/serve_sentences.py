"""Chinese sentences without end, all different, for the benchmark of the server: eight to some fifty characters."""

from __future__ import annotations

import random
from collections.abc import Iterator

_WHEN = (
    "昨天",
    "今天早上",
    "上个星期",
    "去年冬天",
    "刚才",
    "每天晚上",
    "明天下午",
    "两个小时以前",
    "周末的时候",
    "很久以前",
)
_WHO = ("我的哥哥", "那位老师", "她", "他们", "邻居家的孩子", "医生", "我们公司的经理", "一个年轻人", "我奶奶", "警察")
_WHERE = (
    "在图书馆",
    "在火车站附近",
    "在办公室里",
    "在河边",
    "在学校门口",
    "在超市",
    "在医院",
    "在家里",
    "在广场上",
    "",
)
_WHAT = (
    *(
        "买了一本关于历史的书",
        "等了三个小时的车",
        "遇见了一位老朋友",
        "丢了钱包和钥匙",
        "讨论了新的计划",
        "学习怎么做饭",
    ),
    *("看到了一只受伤的猫", "给母亲打了电话", "修好了坏掉的自行车", "写完了报告", "和客户签了合同", "听说了这个消息"),
)
_THEN = (
    *(
        "，可是没有人相信",
        "，然后就回家了",
        "，因为天气太冷",
        "，所以大家都很高兴",
        "，但是结果并不理想",
        "，这让我感到非常意外",
    ),
    *("，虽然时间已经很晚了", "，后来才知道那是一个误会", "，希望以后不会再发生这样的事情", "", "", ""),
)
_END = ("。", "。", "。", "吗？", "！")


def sentences(seed: int) -> Iterator[str]:
    """Sentences that are drawn at random; the number in each makes it different from all others of its seed."""
    draw = random.Random(seed)
    number = draw.randrange(1000)
    while True:
        number += 1
        parts = [draw.choice(part) for part in (_WHEN, _WHO, _WHERE, _WHAT, _THEN, _END)]
        yield "".join([f"第{number}次，" if draw.random() < 0.3 else "", *parts])
