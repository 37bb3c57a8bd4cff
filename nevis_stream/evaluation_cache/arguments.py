"""What is kept of the arguments of a log, which may hold credentials.

Arguments whose names are known to identify a model, or its evaluation, are kept in clear. Those
whose names look like a credential are left out, and so are user and password of a URL. Of every
other one a digest is kept, so that variants of a model stay apart. A clear value of an earlier
version is the same as its digest.
"""

import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

MODEL_ARGUMENTS = ("pretrained", "model", "path", "engine")  # they name the model
IDENTITY_ARGUMENTS = frozenset(  # they make another model of the one that is named
    [
        *("revision", "subfolder", "variant", "gguf_file", "peft", "adapter", "lora_local_path"),
        *("delta", "quantization", "load_in_4bit", "load_in_8bit", "autogptq", "gptqmodel"),
        *("reasoning_effort", "enable_thinking", "effort", "reasoning_tokens", "reasoning_mode"),
    ]
)
_TEXTS = ("prompt", "chat_template", "system_instruction", "solver")  # prompts are taken as a whole
_KNOWN = IDENTITY_ARGUMENTS.union(
    MODEL_ARGUMENTS,
    ("num_fewshot", "fewshot_as_multiturn", "fewshot_seed", "version", "grader", "method"),
    ("message_limit", "token_limit", "turn_limit", "time_limit", "working_limit", "epochs"),
    ("temperature", "top_p", "top_k", "do_sample", "seed", "num_beams", "num_outputs", "dtype"),
    ("max_tokens", "max_gen_toks", "max_new_tokens", "max_length", "max_train_instances"),
)
_UNSTATED = ("none", "unknown")  # what is shown of a fact that a log does not state
_LONGEST = 24  # characters of a value in clear; a longer one is named by a digest
_DEFAULTS = {"revision": "main", "do_sample": "false", "fewshot_as_multiturn": "false"}

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_CREDENTIAL = re.compile(
    r"(\w*(token|secret|passwo?r?d|passphrase|passcode|header|credential|cookie|bearer|oauth)"
    r"|auth|\w*(api|access|private|secret)key|key|authori[sz]ation|authentication|pass|pwd|pw|pat"
    r"|pin|otp|jwt|sas|sig|signature|cred)s?"
)
_OF_TEXT = frozenset(  # words that make a token a part of a text
    [
        *("max", "min", "num", "n", "new", "total", "limit", "budget", "id", "ids", "special"),
        *("bos", "eos", "pad", "sep", "unk", "mask", "stop", "start", "end", "prefix", "image"),
        *("think", "thinking", "reasoning", "prompt", "input", "output", "completion"),
        *("suppress", "forced", "generated"),
    ]
)
_HIDDEN = "…"
_USER = re.compile(r"(?<=//)(?:[^\s/?#@:]*:(?!\d{1,5}[/?#])\S*@|[^\s/?#]*@)")
_ASSIGNING = ("=", "__", "':", '":', "' :", '" :')  # one of them is in what is assigned
_ASSIGNED = re.compile(
    r"(?P<start>(?P<name>[A-Za-z](?:[\w.-]*?[\w-])?)(?:['\"]?\s*=\s*|__|['\"]\s*:\s*))"
    r"(?P<value>\[[^]]*\]|\{[^}]*\}|'[^']*'|\"[^\"]*\"|(?:(?:Bearer|Basic)\s+)?[^\s,;&'\"}\])]+)"
)
_SHORTEST = 8  # characters of what is hidden, and what is before it
_SHAPES = re.compile(  # how well-known services write their keys, and an HTTP header its credential
    r"\b(?:(?:hf_|gh[a-z]_|github_pat_|xox[a-z]-|AKIA|AIza)[\w-]{16,}|sk-[\w-]{32,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)|(?<=\bBearer )\S+|(?<=\bBasic )\S+"
)


@functools.lru_cache(maxsize=4096)
def is_credential(name: str) -> bool:
    """Returns whether a value of this name is likely to be a credential.

    >>> [is_credential(name) for name in ("hf_token", "apiKey", "HTTP-Headers", "max_tokens")]
    [True, True, True, False]
    """
    words = [word.lower() for word in _WORD.findall(name)]
    found = {word for word in words if _CREDENTIAL.fullmatch(word)}
    return bool(found - {"token", "tokens"} or found and not _OF_TEXT.intersection(words))


def redact(text: str) -> str:
    """Returns a text without what looks like a credential in it: user and password of a URL, what
    is assigned to the name of a credential, and keys as well-known services write them.

    >>> redact("https://me:secret@host/v1?api_key=abc&n=2")
    'https://host/v1?api_key=…&n=2'
    """

    def hide(match: re.Match[str]) -> str:
        is_hidden = is_credential(match["name"]) and not is_digest(match["value"])
        return match["start"] + _HIDDEN if is_hidden else match[0]

    if "@" in text:
        text = _USER.sub("", text)
    if any(sign in text for sign in _ASSIGNING):
        text = _ASSIGNED.sub(hide, text)
    return _SHAPES.sub(_HIDDEN, text) if len(text) > _SHORTEST else text


def clean(value: Any, of_text: Callable[[str], str] = redact) -> Any:
    """Returns a JSON value without what is named like a credential, and `of_text` of its texts."""
    if isinstance(value, Mapping):
        return {k: clean(each, of_text) for k, each in value.items() if not is_credential(str(k))}
    if isinstance(value, list | tuple):
        return [clean(each, of_text) for each in value]
    return of_text(value) if isinstance(value, str) else value


def find_credentials(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yields name and text of each part of a JSON value of this name that has a credential."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from find_credentials(each, str(key))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from find_credentials(each, name)
    elif is_credential(name):
        text = str(value)
        if not is_digest(text) and text.lower() not in ("true", "false", "", *_UNSTATED):
            yield name, text
    elif isinstance(value, str) and redact(value) != value:
        yield name, value


def format_facts(facts: Mapping[str, Any]) -> dict[str, str]:
    """Returns facts as short texts without credentials. A fact that is None or empty is left out,
    and so is one with its default, which some versions of a program write and others do not.
    """
    texts = {}
    for name, value in facts.items():
        value = value if name in _TEXTS else clean(value)
        if is_credential(name) or value is None or value in ("", "None", [], {}):
            continue
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
        text = {"True": "true", "False": "false"}.get(text, text)
        if _DEFAULTS.get(name) != text:
            texts[name] = conceal(name, text)
    return texts


def conceal(name: str, text: str) -> str:
    """Returns what is kept of the value of a fact: a digest unless the name is known. What is kept
    already stays as it is.
    """
    if text in _UNSTATED or is_digest(text):
        return text
    text = text if name in _TEXTS else redact(text)
    if name in _KNOWN and len(text) <= _LONGEST and text.isprintable():
        return text
    return f"#{digest(text)[:8]}"


def is_digest(text: str) -> bool:
    """Returns whether a text is a digest that stands for a value, or the number of one."""
    return re.fullmatch(r"#([0-9a-f]{8}|\d+)", text) is not None


def differ(name: str, first: Any, second: Any) -> bool:
    """Returns whether two values of a fact differ, None of which is left out of a comparison."""
    if first == second or is_credential(name):
        return False
    if isinstance(first, str) and isinstance(second, str):
        return conceal(name, first) != conceal(name, second)
    return True


def digest(content: Any) -> str:
    """Returns the SHA-256 of a text, or of anything that JSON can express; addresses of objects in
    memory do not count.
    """
    text = content if isinstance(content, str) else json.dumps(content, sort_keys=True, default=str)
    text = re.sub(r"0x[0-9a-fA-F]{6,}", "", text)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
