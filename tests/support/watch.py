"""The most memory that a server was seen to hold."""

import threading


class Watch(threading.Thread):
    """Looks while it is entered."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.most, self.ended = server, 0, threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()

    def run(self):
        while not self.ended.wait(0.02):
            try:
                self.most = max(self.most, self.server.anonymous_bytes())
            except (AttributeError, OSError):
                pass  # It is being killed, or started.
