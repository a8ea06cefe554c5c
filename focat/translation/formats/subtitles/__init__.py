"""Subtitles: SubRip, WebVTT, ASS and SSA. Cues stay cues and keep their times; only what is said is translated."""

from focat.translation.formats.subtitles.ass import ass_segments
from focat.translation.formats.subtitles.srt import srt_segments
from focat.translation.formats.subtitles.vtt import vtt_segments

__all__ = ["ass_segments", "srt_segments", "vtt_segments"]
