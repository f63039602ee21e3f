"""The options of OAUTHBEARER in a file: by them others than brokers take the tokens of an identity provider, too."""

from __future__ import annotations

from ottla.config.known import broker_options
from ottla.config.oauth import OauthConfig, OauthSettings, oauth_settings
from ottla.config.option import nearest
from ottla.config.properties import parse_properties

_OPTIONS = "sasl.oauthbearer."


def oauth_settings_in(path: str) -> OauthSettings:
    """The settings that a file of properties holds among others; ValueError says what is wrong or missing in it."""
    try:
        with open(path, encoding="utf-8") as file:
            texts = {name: text.strip() for name, text in parse_properties(file.read()).items()}
        unknown = [name for name in texts if name.startswith(_OPTIONS) and name not in broker_options()]
        problems = [f"{name} is no option of tokens{nearest(name, OauthConfig.BY_NAME)}" for name in unknown]
        settings, wrong = (None, []) if problems else oauth_settings(texts, None)
    except OSError as fault:
        raise ValueError(f"{path}: {fault.strerror}") from None
    except ValueError as fault:
        raise ValueError(f"{path}: {fault}") from None
    if settings is None:
        raise ValueError(f"{path}: {'; '.join([*problems, *wrong])}")
    return settings
