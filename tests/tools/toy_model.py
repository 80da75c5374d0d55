#!/usr/bin/env python3
"""Makes a model that says exactly what it is told to, for tests against a real model server.

Owns the scripts and the file's form; knows no server. The model is a real one of the llama architecture, about 1.3 MB, whose
weights are a table: attention and feed-forward are zero, each token's embedding is one-hot, and the output matrix leads from
each token to the one that follows it. The chat template ends the prompt with the token of a script, and the script's pieces
follow. So the server tokenizes, generates, parses calls and counts as with any model. Nothing is trained; the file that comes
out may be used by anyone for anything (CC0).

usage: toy_model.py OUT.gguf TEMPLATE.jinja     (needs the packages gguf and numpy)
"""

import sys

import gguf
import numpy as np

END = "<|im_end|>"

# What the model says, piece by piece, for a question that begins with `st:NAME`. No piece may stand twice.
SCRIPTS = {
    "toolcall": ["<tool_call>", '\n{"name": "get_weather", ', '"arguments": ', '{"city": "Paris"', "}}\n", "</tool_call>"],
    "parallel": [
        "<tool_call> ",
        '{"name": "get_weather", "arguments": {"city": "Rome"}}',
        "</tool_call>\n",
        "\n<tool_call>",
        '{"name": "send_message", "arguments": {"to": "!a1b2c3d4"}}',
        " </tool_call>",
    ],
    "mixed": ["Let me ", "look ", "that up. ", "<tool_call>{", '"name": "get_weather", "arguments": {"city": "Oslo"}', "}</tool_call>"],
    # A tool that was not offered.
    "unknown": ['<tool_call>{"na', 'me": "web_search", "arguments": {"query": "x"}', "} </tool_call> "],
    # Arguments as a text of JSON.
    "strargs": ['<tool_call>{"', 'name": "get_weather", "arguments": "{\\"city\\": \\"Bern\\"}"', "}\n</tool_call>\n"],
    # A key and a type that don't fit the schema.
    "badargs": ['<tool_call>{"nam', 'e": "get_weather", "arguments": {"location": "Bonn", "days": "3"}', "}  </tool_call>"],
    # Never closed.
    "broken": ['<tool_call>{"name', '": "get_weather", "arguments": {"city": "Par'],
    "badjson": ["<tool_call> \n", '{"name": "get_weather", "arguments": {city: Graz}}', "</tool_call>  "],
    # Calls printed as text: bare, in a code fence, in another model's tag.
    "jsontext": ['{"name": ', '"get_weather", ', '"parameters": {"city": "Lyon"}', "}"],
    "fenced": ["```json\n", '{"name":"get_weather","arguments":{"city":"Nice"}}', "\n```"],
    "leak": ["<function_call>", '{"name":"get_weather","arguments":{}}', "</function_call>"],
    "empty": [],
    "think": ["<think>", "\nI should ", "answer briefly.", "\n</think>", "\n\nHello ", "from the mesh."],
    "thinkonly": ["<think>\n", "thinking and ", "never answering"],
    "text": ["It is ", "18 C ", "and sunny ", "in Paris."],
    # Without an end: after its last piece comes its second.
    "loop": ["la ", "lala ", "lalala "],
}
ENDLESS = {"loop": 1}

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6


class Vocabulary:
    """Tokens in their order, and which follows which."""

    def __init__(self):
        self.texts = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
        self.kinds = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
        self.following = {}
        self.ids = {text: place for place, text in enumerate(self.texts)}
        self.add("<|im_start|>", CONTROL)
        self.end = self.add(END, CONTROL)
        for name, pieces in SCRIPTS.items():
            self.script(name, pieces)

    def add(self, text, kind):
        if text in self.ids:
            raise SystemExit(f"the piece {text!r} stands twice")
        self.ids[text] = len(self.texts)
        self.texts.append(text)
        self.kinds.append(kind)
        return self.ids[text]

    def script(self, name, pieces):
        last = self.add(f"<|st:{name}|>", CONTROL)
        places = []
        for piece in pieces:
            place = self.add(piece, USER_DEFINED)
            self.following[last] = place
            places.append(place)
            last = place
        self.following[last] = places[ENDLESS[name]] if name in ENDLESS else self.end


def write(path, template):
    """Writes the file; every size in it follows from the vocabulary's."""
    words = Vocabulary()
    count, heads = len(words.texts), 6
    width = -(-count // (heads * 16)) * (heads * 16)
    head = width // heads

    embedding = np.zeros((count, width), np.float16)
    output = np.zeros((count, width), np.float16)
    for token in range(count):
        embedding[token, token] = 1.0
        # After any token that belongs to no script: the end.
        output[words.following.get(token, words.end), token] = 3.0

    file = gguf.GGUFWriter(path, "llama")
    file.add_name("toy")
    file.add_license("CC0-1.0")
    file.add_context_length(32768)
    file.add_embedding_length(width)
    file.add_block_count(1)
    file.add_feed_forward_length(32)
    file.add_head_count(heads)
    file.add_head_count_kv(1)
    file.add_layer_norm_rms_eps(1e-6)
    file.add_rope_dimension_count(head)
    file.add_vocab_size(count)
    file.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    file.add_tokenizer_model("llama")
    file.add_tokenizer_pre("default")
    file.add_token_list([text.encode() for text in words.texts])
    file.add_token_scores([0.0] * 3 + [-1000.0] * (count - 3))
    file.add_token_types(words.kinds)
    file.add_bos_token_id(1)
    file.add_eos_token_id(words.end)
    file.add_unk_token_id(0)
    file.add_add_bos_token(True)
    file.add_add_eos_token(False)
    file.add_add_space_prefix(False)
    file.add_chat_template(template)

    zero = lambda rows, columns: np.zeros((rows, columns), np.float16)
    tensors = {
        "token_embd.weight": embedding,
        "output.weight": output,
        "output_norm.weight": np.ones(width, np.float32),
        "blk.0.attn_norm.weight": np.ones(width, np.float32),
        "blk.0.ffn_norm.weight": np.ones(width, np.float32),
        "blk.0.attn_q.weight": zero(width, width),
        "blk.0.attn_k.weight": zero(head, width),
        "blk.0.attn_v.weight": zero(head, width),
        "blk.0.attn_output.weight": zero(width, width),
        "blk.0.ffn_gate.weight": zero(32, width),
        "blk.0.ffn_up.weight": zero(32, width),
        "blk.0.ffn_down.weight": zero(width, 32),
    }
    for name, tensor in tensors.items():
        file.add_tensor(name, tensor)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    with open(sys.argv[2], encoding="utf-8") as template:
        write(sys.argv[1], template.read())
