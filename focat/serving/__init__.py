"""`focat serve`: HTTP APIs that keep the context of documents, and a page, over the translator.

The thread of the event loop reads requests, checks them and sends answers. Each run has a thread of its own, which owns
its engine and decodes the windows of all clients together.
"""
