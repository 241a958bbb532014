"""Clients that go on beside a test until it has seen enough."""


class Clients:
    """Has `threads`, which run as long as it is `going`: they are those of a `with`."""

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *raised):
        self.going = False
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), "a client hangs"
