"""A user id without a name, which containers may be given (OpenShift, ``docker run --user 12345:0``).

The system knows neither its name nor its home. In the JVM both are then ``?``: Ivy takes that for a directory, and
Hadoop asks the system for a login name itself. So the JVM gets both, and Hadoop gets its user from us.
"""

from __future__ import annotations

import os
import pwd
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark import SparkContext

from paimon_table.storage.private_directory import private_root

_UNCACHED = "spark.hadoop.fs.file.impl.disable.cache"
"""Hadoop's cache of file systems asks for the login, and Spark looks at jars before anybody could give it one."""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_NAME_VARIABLES = ("HADOOP_USER_NAME", "SPARK_USER", "LOGNAME", "USER")
_WORD = re.compile(r"[\w./@+-]+")
"""Text that Spark's launcher does not split or unquote."""


@dataclass(frozen=True, slots=True)
class NamelessUser:
    """The replacement for the entry that the system lacks."""

    name: str
    home: str

    def in_jvm(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The properties to start the JVM with; options that are given come later and win."""
        options = f"-Duser.name={self.name} -Duser.home={self.home} {properties.get(_JAVA_OPTIONS, '')}"
        return {_UNCACHED: "true", **properties, _JAVA_OPTIONS: options.strip()}

    def log_in(self) -> None:
        """Be this user for Hadoop from the start of the JVM on, unless a login of Kerberos decides who we are."""
        jvm = SparkContext._jvm
        assert jvm is not None
        users = jvm.org.apache.hadoop.security.UserGroupInformation
        if not users.isSecurityEnabled():
            users.setLoginUser(users.createRemoteUser(self.name))
        jvm.java.lang.System.clearProperty(_UNCACHED)


def nameless_user(environment: Mapping[str, str] | None = None) -> NamelessUser | None:
    """The user name of this process for the JVM; None if the system knows the user."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        variables = os.environ if environment is None else environment
        named = (variables.get(name, "") for name in _NAME_VARIABLES)
        name = next((name for name in named if _WORD.fullmatch(name)), str(os.geteuid()))
        return NamelessUser(name, _home(variables.get("HOME", "")))
    return None


def _home(given: str) -> str:
    """A directory that can be written: container runtimes say ``/`` of such a user."""
    if given.startswith("/") and _WORD.fullmatch(given) and os.access(given, os.W_OK | os.X_OK):
        return given
    return private_root(tempfile.gettempdir())
