"""Einsum equations."""

from __future__ import annotations

from tests.shape_cases import Draw, cases


def _term(draw: Draw, repeated: bool) -> str:
    letters = [draw.pick("abcd") for _ in range(draw.integer(0, 3))]
    return "".join(letters if repeated else dict.fromkeys(letters))


@cases("keras.ops.einsum", imprecise=True)
@cases("torch.einsum", "numpy.einsum", "jax.numpy.einsum", "tf.einsum", "tf.linalg.einsum")
def _(draw: Draw) -> str:
    sizes = {letter: draw.integer(2, 4) for letter in "abcd"}
    terms = [_term(draw, draw.chance(0.1)) for _ in range(draw.integer(1, 3))]
    ellipsis = draw.shape(1, 2) if draw.chance(0.25) else ()
    shapes: list[tuple[int, ...]] = []
    texts: list[str] = []
    for term in terms:
        split = draw.integer(0, len(term))
        named = ellipsis and draw.chance(0.8)
        front, back = term[:split], term[split:]
        texts.append(f"{front}...{back}" if named else term)
        middle = ellipsis[draw.integer(0, 1) :] if named else ()
        shapes.append((*(sizes[x] for x in front), *middle, *(sizes[x] for x in back)))
    output = ""
    # TensorFlow refuses some equations with an ellipsis and without an arrow, and takes others.
    if draw.chance(0.8) or (ellipsis and draw.name.startswith("tf")):
        present = list(dict.fromkeys("".join(terms)))
        chosen = "".join(letter for letter in present if draw.chance(0.6))
        if draw.chance(0.05):
            chosen += draw.pick("abcd")
        output = "->" + ("..." if any("..." in text for text in texts) else "") + chosen
    name = draw.name.replace("jax.numpy", "jnp").replace("numpy.", "np.")
    arrays = ", ".join(draw.array(draw.varied(shape, 0.2)) for shape in shapes)
    return f'{name}("{",".join(texts)}{output}", {arrays})'
