"""Checks of `source.kafka.options` and `bootstrap_servers` that need no JVM: names, values, combinations.

Values are never part of the texts: they may be secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from paimon_table.nearest_name import SURE, nearest
from pipelines.config import kafka_properties as known

Mistake = tuple[str, str]
"""Name of the property, and what is wrong with it."""


def property_mistakes(options: Mapping[str, str]) -> Iterator[Mistake]:
    """Values that cannot be meant."""
    for name, value in options.items():
        if _is_known(name):
            wrong = _wrong_value(name, value)
            if wrong:
                yield name, f"'{name}': {wrong}"
        else:
            elsewhere = misplaced(name)
            close = misspelt(name)
            if elsewhere:
                yield name, elsewhere
            elif close:
                yield name, f"unknown property '{name}' of Kafka's client; did you mean '{close}'?"
    yield from _without_effect(options)
    yield from _store_mistakes(options)
    yield from _login_mistakes(options)


def property_warnings(options: Mapping[str, str]) -> Iterator[Mistake]:
    """Names that only a plug-in can know."""
    for name, value in options.items():
        if not _is_known(name) and not misplaced(name) and not misspelt(name):
            close = nearest(name, known.KNOWN)
            hint = f"; did you mean '{close}'?" if close else ""
            yield name, f"Kafka's client has no property '{name}': it has an effect only if a plug-in reads it{hint}"
        words = known.PLUGGABLE_WORDS.get(name, ())
        if words and value not in words and not _meant_word(value, words):
            yield name, f"'{name}' is not one of {', '.join(words)}: it needs a plug-in that provides it"


def server_mistakes(bootstrap_servers: str) -> Iterator[str]:
    """The problem with a list of HOST:PORT pairs; None if there is none."""
    for server in bootstrap_servers.split(","):
        form = _SERVER.fullmatch(server.strip())
        if form is None:
            without_port = re.fullmatch(r"[\w.-]+", server.strip())
            remedy = f"add the port: {server.strip()}:9092" if without_port else "write HOST:PORT,HOST:PORT"
            yield f"'{server.strip()}' is not HOST:PORT; {remedy}"
        elif not 0 < int(form[1]) < 65536:
            yield f"'{server.strip()}': ports are 1 to 65535"


_SERVER = re.compile(r"(?!https?://)(?:[A-Za-z0-9_%.-]*://)?(?:\[[0-9A-Fa-f:.%]+\]|[\w%.-]+):(\d{1,9})")


def _is_known(name: str) -> bool:
    return name in known.KNOWN or name.startswith("config.providers.")


def misspelt(name: str) -> str | None:
    """The known name that an unknown one certainly means."""
    return nearest(name, known.KNOWN, at_least=SURE)


def misplaced(name: str) -> str | None:
    """Why ``options`` may not have a name: it is set elsewhere, or is not for readers."""
    plain = name.removeprefix("kafka.")
    owned = {other.lower(): (other, why) for other, why in known.OF_TIDEMARK.items()}.get(plain.lower())
    if owned:
        return f"{name} is not set here: {owned[1]}"
    if name != plain:
        return f"{name}: write the client property without the prefix `kafka.`"
    if name in known.OF_PRODUCERS:
        return f"{name} is a property of producers, and a pipeline only reads; remove it"
    return None


def _wrong_value(name: str, value: str) -> str | None:
    if name in known.BOOLEANS and value.lower() not in ("true", "false"):
        return "expected true or false"
    if name in known.NUMBERS and not re.fullmatch(r"\d{1,18}|-1", value.strip()):
        return "expected a whole number, without a unit"
    if name in known.FRACTIONS and not re.fullmatch(r"\d*\.?\d+", value.strip()):
        return "expected a number such as 0.8"
    words = known.WORDS.get(name, ())
    is_word = value in words or (name in known.ANY_CASE and value.upper() in map(str.upper, words))
    if words and not is_word:
        return f"expected one of {', '.join(words)}{_hint(value, words)}"
    if name in known.PLUGGABLE_WORDS and value not in known.PLUGGABLE_WORDS[name]:
        close = _meant_word(value, known.PLUGGABLE_WORDS[name])
        return f"expected one of {', '.join(known.PLUGGABLE_WORDS[name])}; did you mean '{close}'?" if close else None
    if name == known.JAAS and value.strip() and not _JAAS.fullmatch(value):
        return (
            'cannot be read: it must look like MODULE required username="..." password="..."; with values in double'
            " quotes and a semicolon at the end"
        )
    return None


def _hint(value: str, words: tuple[str, ...]) -> str:
    close = nearest(value, words)
    return f"; did you mean '{close}'?" if close else ""


def _meant_word(value: str, words: tuple[str, ...]) -> str | None:
    """The word, of a few short ones, that a value certainly means."""
    return nearest(value, words, at_least=0.8)


_VALUE = r"""(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[\w$.:/@-]+)"""
_JAAS = re.compile(
    rf"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)(?:\s+[\w.$-]+\s*=\s*{_VALUE})*\s*;\s*", re.IGNORECASE
)


def _without_effect(options: Mapping[str, str]) -> Iterator[Mistake]:
    """Settings of TLS without TLS, of a login without a login."""
    protocol = options.get(known.SECURITY_PROTOCOL, "PLAINTEXT").upper()
    if protocol not in known.WORDS[known.SECURITY_PROTOCOL]:
        return
    for name in options:
        if name not in known.KNOWN:
            continue
        if name.startswith("ssl.") and not protocol.endswith("SSL"):
            needed = "SASL_SSL" if protocol.startswith("SASL") else "SSL or SASL_SSL"
        elif name.startswith("sasl.") and not protocol.startswith("SASL"):
            needed = "SASL_SSL" if protocol == "SSL" else "SASL_SSL or SASL_PLAINTEXT"
        else:
            continue
        yield name, f"'{name}' has no effect with {known.SECURITY_PROTOCOL} = {protocol}; set that to {needed}"


def _store_mistakes(options: Mapping[str, str]) -> Iterator[Mistake]:
    """Options of keystores and truststores that Java's client refuses or ignores; librdkafka would accept some."""
    is_tls = options.get(known.SECURITY_PROTOCOL, "").upper().endswith("SSL")
    if not is_tls or "ssl.engine.factory.class" in options:
        return
    yield from _store_mistake(options, "ssl.keystore", ("ssl.keystore.key", "ssl.keystore.certificate.chain"))
    yield from _store_mistake(options, "ssl.truststore", ("ssl.truststore.certificates",))
    if "ssl.key.password" in options and not options.keys() & {"ssl.keystore.location", "ssl.keystore.key"}:
        yield "ssl.key.password", "'ssl.key.password' has no effect without ssl.keystore.location or ssl.keystore.key"


def _store_mistake(options: Mapping[str, str], store: str, texts: tuple[str, ...]) -> Iterator[Mistake]:
    """Of one store, which is a file or ``texts``."""
    kind, location, password = f"{store}.type", f"{store}.location", f"{store}.password"
    is_pem = options.get(kind) == "PEM"
    text = next((name for name in texts if name in options), None)
    if _wrong_value(kind, options.get(kind, "JKS")):
        return
    if text is not None and location in options:
        yield text, f"'{text}' contradicts {location}: a store is a file or text; remove one"
    elif text is not None and not is_pem:
        yield text, f"'{text}' is text in PEM: set {kind} to PEM"
    elif text is not None and (missing := [name for name in texts if name not in options]):
        yield text, f"'{text}' needs {missing[0]} too"
    if text is None and location not in options:
        for name in (kind, password):
            if name in options:
                yield name, f"'{name}' has no effect without {' or '.join((location, texts[0]))}"
    elif password in options and is_pem:
        of_key = "; the password of its key is ssl.key.password" if store == "ssl.keystore" else ""
        yield password, f"'{password}': stores in PEM have no password{of_key}"
    elif text is None and store == "ssl.keystore" and not is_pem and password not in options:
        yield location, f"'{location}' needs {password}; for a file in PEM, set {kind} to PEM"


def _login_mistakes(options: Mapping[str, str]) -> Iterator[Mistake]:
    """A login module of another mechanism; Kafka's own default is GSSAPI, which few mean."""
    form = _JAAS.fullmatch(options.get(known.JAAS, ""))
    if form is None or "sasl.client.callback.handler.class" in options:
        return
    mechanism = options.get(known.MECHANISM)
    module = form[1]
    close = nearest(module, known.LOGIN_MODULES, at_least=0.9)
    if module in known.LOGIN_MODULES:
        mechanisms = known.LOGIN_MODULES[module]
        is_known = mechanism is None or mechanism in known.PLUGGABLE_WORDS[known.MECHANISM]
        if is_known and (mechanism or "GSSAPI") not in mechanisms:
            stated = f"not {mechanism}" if mechanism else f"and {known.MECHANISM} is not given"
            yield known.JAAS, f"'{known.JAAS}' names a module for {' or '.join(mechanisms)}, {stated}"
    elif close:
        yield known.JAAS, f"'{known.JAAS}': unknown login module; did you mean '{close}'?"
