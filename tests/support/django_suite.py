"""Settings and a test runner for Django's own test suites, on databases that are there already.

`tests/runtests.py --settings=support.django_suite --keepdb` makes no database if there is one of the test's name.
What a run needs is in its environment: `SUITE_DATABASES`, the two databases as JSON, and `SUITE_OUTCOMES`, a
file which gets the outcome of each test.
"""

import json
import os
import unittest

from django.test.runner import DiscoverRunner


def database(host, port, user, name):
    return {"ENGINE": "django.db.backends.postgresql", "HOST": host, "PORT": port, "USER": user, "NAME": name,
            "TEST": {"NAME": name}}


DATABASES = dict(zip(["default", "other"], (database(*each) for each in json.loads(os.environ["SUITE_DATABASES"]))))
SECRET_KEY = "none"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
TEST_RUNNER = "support.django_suite.Runner"


class Outcomes(unittest.TextTestResult):
    """Of each test "passed", "skipped", or what failed first. A fixture of a class or a module is a test only if it fails."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.outcomes = {}

    def failed(self, test, error):
        lines = str(error[1]).strip().splitlines() or [""]
        self.outcomes.setdefault(test.id(), f"{error[0].__name__}: {lines[0]}")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.outcomes.setdefault(test.id(), "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcomes.setdefault(test.id(), "skipped")

    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error)
        self.outcomes.setdefault(test.id(), "passed")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.outcomes.setdefault(test.id(), "an unexpected success")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.failed(test, error)

    def addError(self, test, error):
        super().addError(test, error)
        self.failed(test, error)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error:
            self.failed(test, error)


class Runner(DiscoverRunner):
    def get_resultclass(self):
        return Outcomes

    def run_suite(self, suite, **options):
        result = super().run_suite(suite, **options)
        with open(os.environ["SUITE_OUTCOMES"], "w") as file:
            json.dump(result.outcomes, file, indent=1)
        return result
