"""Random numbers (containment only: the outputs are not deterministic) and text."""

from __future__ import annotations

import numpy as np

from tensorproof.formats import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, STRING, Format
from tests.soundness.seeds.seed import Seed, seed

_LIKE = np.random.default_rng(1).standard_normal((3, 40)).astype(np.float32)
_PROBABILITIES = np.random.default_rng(2).random((4, 5)).astype(np.float32)


def _random(operator: str, to: Format, opset: int, like: bool, oracle: str, **attributes: object) -> Seed:
    shape: dict[str, object] = {} if like else {"shape": [4, 50]}
    name = f"{operator}-{to}-{opset}-{oracle}-" + "-".join(f"{k}{v}" for k, v in attributes.items())
    return seed(
        operator,
        [_LIKE] if like else [],
        {"dtype": to.onnx_code, **shape, **attributes},
        opset=opset,
        output_types=[to.onnx_code],
        vary=[],
        oracle=oracle,
        name=name,
    )


def _texts(*texts: str) -> np.ndarray:
    return np.array(texts, object)


_TFIDF = {
    "mode": "TF",
    "min_gram_length": 1,
    "max_gram_length": 2,
    "max_skip_count": 1,
    "ngram_counts": [0, 2],
    "ngram_indexes": [3, 1, 2, 0],
    "pool_int64s": [0, 1, 0, 0, 0, 1],
}
_WEIGHTS = [1.0, -2.0, 3.5, 0.25]

SEEDS = [
    *(
        _random(f"RandomNormal{suffix}", to, opset, bool(suffix), "reference", mean=mean, scale=scale)
        for suffix in ("", "Like")
        for to, opset, mean, scale in (
            (FLOAT32, 7, 0.0, 1.0),
            (FLOAT64, 7, -3.0, 0.25),
            (FLOAT16, 22, 100.0, 40.0),
            (BFLOAT16, 22, 5.0, 2.0),
        )
    ),
    *(
        _random(f"RandomUniform{suffix}", to, opset, bool(suffix), "reference", low=low, high=high)
        for suffix in ("", "Like")
        for to, opset, low, high in (
            (FLOAT32, 7, 0.0, 1.0),
            (FLOAT64, 7, -1000.0, 0.001),
            (FLOAT16, 22, -3.0, 7.7),
            (BFLOAT16, 22, 0.1, 0.3),
        )
    ),
    _random("RandomNormal", FLOAT32, 21, False, "runtime", mean=2.0, scale=3.0, seed=1.0),
    _random("RandomUniform", FLOAT32, 21, False, "runtime", low=-2.0, high=3.0, seed=1.0),
    _random("RandomNormalLike", FLOAT32, 21, True, "runtime", mean=2.0, scale=3.0),
    _random("RandomUniformLike", FLOAT32, 21, True, "runtime", low=-2.0, high=3.0),
    *(
        seed(
            "Bernoulli",
            [_PROBABILITIES],
            {} if to is None else {"dtype": to.onnx_code},
            opset=opset,
            output_types=[(to or FLOAT32).onnx_code],
            vary=[],
            oracle=oracle,
            name=f"bernoulli-{to}-{opset}-{oracle}",
        )
        for to, opset, oracle in (
            (None, 15, "reference"),
            (FLOAT64, 22, "reference"),
            (INT32, 22, "runtime"),
            (BOOL, 15, "runtime"),
        )
    ),
    *(
        seed(
            "Multinomial",
            [np.log(_PROBABILITIES)],
            {"dtype": to.onnx_code, "sample_size": count, "seed": 3.0},
            opset=opset,
            output_types=[to.onnx_code],
            oracle="runtime",
            name=f"multinomial-{to}-{opset}",
        )
        for to, opset, count in ((INT32, 7, 6), (INT64, 22, 3))
    ),
    # text
    seed("StringConcat", [_texts("a", "b"), _texts("c")], opset=20, name="concat-broadcast"),
    seed(
        "StringSplit",
        [np.array([["a,b", "c"], ["", "d,e,f"]], object)],
        {"delimiter": ",", "maxsplit": 1},
        opset=20,
        outputs=2,
        output_types=[STRING.onnx_code, INT64.onnx_code],
        name="split-maxsplit",
    ),
    seed(
        "StringSplit",
        [_texts(" a  b ", "c", "")],
        opset=20,
        outputs=2,
        output_types=[STRING.onnx_code, INT64.onnx_code],
        name="split-whitespace",
    ),
    seed(
        "RegexFullMatch",
        [_texts("www.google.com", "nothing")],
        {"pattern": r"www\.[\w.-]+\.com"},
        opset=20,
        output_types=[BOOL.onnx_code],
        name="regex",
    ),
    seed(
        "StringNormalizer",
        [_texts("Monday", "tuesday", "the")],
        {"case_change_action": "UPPER", "stopwords": ["the"], "is_case_sensitive": 1},
        opset=10,
        name="normalizer",
    ),
    *(
        seed(
            "TfIdfVectorizer",
            [tokens],
            {**_TFIDF, **extra},
            opset=9,
            output_types=[FLOAT32.onnx_code],
            vary=vary,
            name=f"tfidf-{name}",
        )
        for name, tokens, extra, vary in (
            ("point", np.array([0, 0, 1, 7, 1], np.int64), {}, []),
            ("range", np.array([[0, 1], [1, 0]], np.int64), {"max_skip_count": 0}, [0]),
            ("range-int32", np.array([0, 0], np.int32), {"mode": "IDF", "weights": _WEIGHTS}, [0]),
            ("range-single", np.array([0, 1, 1, 0], np.int32), {"mode": "TFIDF", "max_gram_length": 1}, [0]),
            (
                "range-weights",
                np.array([0, 0], np.int64),
                {"mode": "TFIDF", "weights": _WEIGHTS, "max_skip_count": 0, "min_gram_length": 2},
                [0],
            ),
        )
    ),
    seed(
        "TfIdfVectorizer",
        [_texts("a", "b", "a", "c")],
        {
            "mode": "TFIDF",
            "min_gram_length": 1,
            "max_gram_length": 2,
            "max_skip_count": 0,
            "ngram_counts": [0, 2],
            "ngram_indexes": [0, 1, 2],
            "pool_strings": ["a", "b", "b", "a"],
            "weights": [0.5, 2.0, 3.0],
        },
        opset=9,
        output_types=[FLOAT32.onnx_code],
        name="tfidf-text",
    ),
]
