"""Batching inside a program: many coroutines, one model, no server.

xirang fetch                  # once: lays out models/all-MiniLM-L6-v2
python examples/embed.py
"""

import asyncio
import sys
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

import xirang

HOME = Path(sys.argv[1] if len(sys.argv) > 1 else "models/all-MiniLM-L6-v2")
TEXTS = [
    "A cat is sitting on the mat.",
    "A kitten rests on a rug.",
    "The central bank raised interest rates again, for the third time in a row this year.",
]


async def embed(engine, tokenizer, text):
    """One text's vector; calls that wait at the same time share runs of the model."""
    ids = np.array([tokenizer.encode(text).ids])
    inputs = {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "token_type_ids": np.zeros_like(ids),
    }
    outputs = await engine.infer(HOME.name, inputs, outputs=["embedding"], budget_ms=5_000)
    return outputs["embedding"][0]


async def main():
    """Embed all texts at once and compare them."""
    tokenizer = Tokenizer.from_file(str(HOME / "tokenizer.json"))
    async with xirang.load(str(HOME)) as engine:
        vectors = await asyncio.gather(*(embed(engine, tokenizer, text) for text in TEXTS))
    for text, vector in zip(TEXTS, vectors, strict=True):
        print(f"{vectors[0] @ vector:5.2f}  {text}")


asyncio.run(main())
