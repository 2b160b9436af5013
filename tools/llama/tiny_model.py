#!/usr/bin/env python3
"""Writes a small llama model with random weights, for a real llama.cpp server to stream from.

    python tiny_model.py PATH [--seed N]

The words are noise, picked from a short list; everything around them (headers, chunks, usage, timing,
errors) is the server's own. The same seed gives the same model. It never ends an answer by itself:
answers end at the request's token limit, but for those to requests that require a tool, which call one.
"""
import argparse
import os

import gguf
import numpy as np

WIDTH = 64
HEADS = 4
LAYERS = 2
INNER = 128
# Long prompts are part of the tests; positions past this are refused by the server.
CONTEXT = 131_072

SPECIAL = [
    ("<unk>", gguf.TokenType.UNKNOWN),
    ("<s>", gguf.TokenType.CONTROL),
    ("</s>", gguf.TokenType.CONTROL),
]
WORDS = "a still small voice that keeps on talking until the line goes dark and is heard once more".split()

# Where tools are offered the prompt ends in a mark, so that HABITS begin a call of one.
TEMPLATE = """\
{% if tools %}tools: {{ tools | tojson }}
{% endif %}{% for message in messages %}{{ message['role'] }}: {{ message['content'] or '' }}\
{% for call in message.tool_calls or [] %}<C>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</C>{% endfor %}
{% endfor %}{% if add_generation_prompt %}assistant:{% if tools %}!{% endif %}{% endif %}"""

# After the first of each pair comes the second, in whatever context. `<C>` and a line end open a call;
# what stands in it is forced by the grammar that the server makes of the tools, if one is required.
HABITS = [("!", "<"), ("<", "C"), ("C", ">"), (">", "\n"), ("\n", "</s>")]


def vocabulary():
    """Returns (text, score, kind) for each token: specials, every byte, then the words."""
    tokens = [(text, 0.0, kind) for text, kind in SPECIAL]
    tokens += [(f"<0x{byte:02X}>", 0.0, gguf.TokenType.BYTE) for byte in range(256)]
    # U+2581 stands for the space before a word in this kind of vocabulary.
    words = dict.fromkeys("\u2581" + word for word in WORDS)
    tokens += [(word, -float(rank), gguf.TokenType.NORMAL) for rank, word in enumerate(words)]
    return tokens


def place(names, text):
    """Returns the number of a token, which is a special one or a byte."""
    return names.index(text if text in names else f"<0x{ord(text):02X}>")


def tensors(random, names):
    """Yields (name, values) for each tensor of the model."""
    vocabulary_size = len(names)

    def weights(*shape):
        return random.normal(0.0, 0.05, shape).astype(np.float32)

    ones = np.ones(WIDTH, dtype=np.float32)
    habits = [(place(names, before), place(names, after)) for before, after in HABITS]
    embeddings = weights(vocabulary_size, WIDTH)
    for before, _ in habits:
        # Louder than what the layers add to it.
        embeddings[before] *= 10.0
    yield "token_embd.weight", embeddings
    yield "output_norm.weight", ones

    output = weights(vocabulary_size, WIDTH)
    first_word = len(SPECIAL) + 256
    # Raw bytes would make broken UTF-8 and the end token would end the answer, so words must win.
    output[:first_word] *= 0.01
    output[first_word:] *= 40.0
    for before, after in habits:
        output[after] += 8.0 * embeddings[before] / np.linalg.norm(embeddings[before])
    yield "output.weight", output

    for layer in range(LAYERS):
        block = f"blk.{layer}."
        yield block + "attn_norm.weight", ones
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"{block}{part}.weight", weights(WIDTH, WIDTH)
        yield block + "ffn_norm.weight", ones
        yield block + "ffn_gate.weight", weights(INNER, WIDTH)
        yield block + "ffn_up.weight", weights(INNER, WIDTH)
        yield block + "ffn_down.weight", weights(WIDTH, INNER)


def write(path, seed):
    """Writes the model to path, whole or not at all."""
    tokens = vocabulary()
    unfinished = f"{path}.{os.getpid()}"
    writer = gguf.GGUFWriter(unfinished, "llama")
    writer.add_name("tiny-noise")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _, _ in tokens])
    writer.add_token_scores([score for _, score, _ in tokens])
    writer.add_token_types([kind for _, _, kind in tokens])
    # The server's grammar begins with the end of the prompt, as it stands in the template.
    writer.add_add_space_prefix(False)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(TEMPLATE)
    names = [text for text, _, _ in tokens]
    for name, values in tensors(np.random.default_rng(seed), names):
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(unfinished, path)


def main():
    parser = argparse.ArgumentParser(description="Writes a small llama model with random weights.")
    parser.add_argument("path", help="file to write, usually ending in .gguf")
    parser.add_argument("--seed", type=int, default=1, help="seed of the weights (default 1)")
    arguments = parser.parse_args()
    write(arguments.path, arguments.seed)


if __name__ == "__main__":
    main()
