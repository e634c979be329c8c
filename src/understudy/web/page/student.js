// A student in JavaScript: the tokenizer, the ONNX file and the decoding of understudy's Predictor.
//
//   import { Predictor } from "./student.js";
//   const predict = await Predictor.load();
//   await predict.predict("a fine film");
//
// Offsets (`start`, `end`) count UTF-16 units, so that text.slice(start, end) is the answer.

import * as ort from "./vendor/ort.wasm.min.mjs";
import { Tokenizer } from "./vendor/tokenizers.min.mjs";

const NUM_CANDIDATES = 20;
const MAX_ANSWER_TOKENS = 30;
const MAX_QUESTION_TOKENS = 64;
const DEFAULT_STRIDE = 128;
const THRESHOLD = 0.5;

export class Predictor {
  /** Load the student that lies beside this file. `onProgress(loaded, total)` counts bytes. */
  static async load({ base = new URL(".", import.meta.url), onProgress = () => {} } = {}) {
    const json = async (name) => (await open(new URL(`artifact/${name}`, base))).json();
    const artifact = await json("artifact.json");
    const chosen = artifact.models[artifact.default];
    const tokenizer = new Tokenizer(await json("tokenizer.json"), await json("tokenizer_config.json"));
    const weights = await download(new URL(`artifact/${chosen.file}`, base), chosen.bytes, onProgress);
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.wasmPaths = new URL("vendor/", base).href;
    const session = await ort.InferenceSession.create(weights, { executionProviders: ["wasm"] });
    return new Predictor(artifact, tokenizer, session);
  }

  constructor(artifact, tokenizer, session) {
    this.artifact = artifact;
    this.session = session;
    this.reader = new Reader(tokenizer, artifact);
  }

  /** Return the prediction for a text, or for an object with the fields of `artifact.fields`. */
  async predict(input) {
    const kind = KINDS[this.artifact.kind];
    const row = typeof input === "string" ? { [kind.textField ?? this.artifact.fields[0]]: input } : input;
    const { encodings, details } = kind.read(row, this.reader, this.artifact);
    const logits = await this.run(encodings);
    const prediction = kind.decode(row, logits, details, this.artifact);
    if (encodings.some((one) => one.truncated)) {
      prediction.truncated = true;
    }
    return prediction;
  }

  /** Return the model's outputs for each encoding of a row, divided by the artifact's temperature.
   *
   * One by one, as in understudy's Predictor: in a batch, all activations of an int8 model have one scale.
   */
  async run(encodings) {
    const found = [];
    for (const encoding of encodings) {
      const made = await this.session.run(this.feeds(encoding), this.artifact.outputs);
      found.push(this.artifact.outputs.map((name) => {
        const values = Array.from(made[name].data);
        return { values: values.map((one) => one / (this.artifact.temperature ?? 1)), width: made[name].dims.at(-1) };
      }));
    }
    return found;
  }

  /** Return the inputs of the model for one encoding. */
  feeds({ ids, types }) {
    const columns = { input_ids: ids, token_type_ids: types, attention_mask: ids.map(() => 1) };
    const tensor = (name) => new ort.Tensor("int64", BigInt64Array.from(columns[name], BigInt), [1, ids.length]);
    return Object.fromEntries(this.artifact.inputs.map((name) => [name, tensor(name)]));
  }
}

/** Tokenises texts as understudy's TextReader does: the same tokens, truncation and windows. */
class Reader {
  constructor(tokenizer, artifact) {
    this.tokenizer = tokenizer;
    this.maxLength = artifact.max_length;
    this.side = artifact.truncation_side;
    this.stride = artifact.stride ?? Math.min(DEFAULT_STRIDE, Math.floor(this.maxLength / 3));
    this.single = this.template("a");
    this.pair = this.template("a", "a");
  }

  ids(text) {
    return this.tokenizer.encode(text, { add_special_tokens: false }).ids;
  }

  /** Find the special tokens around texts, and the segment of each part, by looking at an example. */
  template(first, second = null) {
    const whole = this.tokenizer.encode(first, { text_pair: second, return_token_type_ids: true });
    const size = this.ids(first).length;
    const start = whole.ids.findIndex((_, place) => this.ids(first).every((id, n) => whole.ids[place + n] === id));
    const types = whole.token_type_ids ?? whole.ids.map(() => 0);
    const rest = start + size;
    if (second === null) {
      return { parts: [whole.ids.slice(0, start), whole.ids.slice(rest)], types: [types[0], types[start], types.at(-1)] };
    }
    const last = whole.ids.length - 1 - [...whole.ids].reverse().findIndex((id) => id === this.ids(second).at(-1));
    const next = last - this.ids(second).length + 1;
    return {
      parts: [whole.ids.slice(0, start), whole.ids.slice(rest, next), whole.ids.slice(last + 1)],
      types: [types[0], types[start], types[rest], types[next], types.at(-1)],
    };
  }

  numSpecial(template) {
    return template.parts.reduce((sum, part) => sum + part.length, 0);
  }

  cut(ids, size) {
    return this.side === "left" ? ids.slice(ids.length - size) : ids.slice(0, size);
  }

  /** Encode a text or a pair; the longer of two is cut first. */
  text(first, second = null) {
    if (second === null) {
      const ids = this.ids(first);
      const kept = this.cut(ids, Math.min(ids.length, this.maxLength - this.numSpecial(this.single)));
      return this.joinSingle(kept, kept.length < ids.length);
    }
    const ids = [this.ids(first), this.ids(second)];
    const room = this.maxLength - this.numSpecial(this.pair);
    let sizes = ids.map((one) => one.length);
    if (sizes[0] + sizes[1] > room) {
      const isSwapped = sizes[0] > sizes[1];
      let [short, long] = isSwapped ? [sizes[1], sizes[0]] : sizes;
      long = short > room ? short : Math.max(short, room - short);
      if (short + long > room) {
        short = Math.floor(room / 2);
        long = short + (room % 2);
      }
      sizes = isSwapped ? [long, short] : [short, long];
    }
    const truncated = sizes.some((size, place) => size < ids[place].length);
    return this.joinPair(this.cut(ids[0], sizes[0]), this.cut(ids[1], sizes[1]), truncated);
  }

  joinSingle(ids, truncated) {
    const { parts, types } = this.single;
    const pieces = [parts[0], ids, parts[1]];
    return { ...flatten(pieces, types), start: parts[0].length, truncated };
  }

  joinPair(first, second, truncated) {
    const { parts, types } = this.pair;
    const pieces = [parts[0], first, parts[1], second, parts[2]];
    const start = parts[0].length + first.length + parts[1].length;
    return { ...flatten(pieces, types), start, truncated };
  }

  /** Encode windows over a context, each after its question. */
  windows(question, context) {
    const limit = Math.min(MAX_QUESTION_TOKENS, Math.floor(this.maxLength / 3));
    let asked = this.ids(question);
    if (asked.length > limit) {
      const spans = this.spans(question);
      asked = this.ids(question.slice(0, spans[limit - 1][1]));
    }
    const ids = this.ids(context), spans = this.spans(context);
    const size = this.maxLength - this.numSpecial(this.pair) - asked.length;
    const windows = [];
    for (let start = 0; start === 0 || start < ids.length; start += size - this.stride) {
      const stop = Math.min(start + size, ids.length);
      const encoding = this.joinPair(asked, ids.slice(start, stop), false);
      const own = encoding.ids.map(() => [-1, -1]);
      spans.slice(start, stop).forEach((span, place) => (own[encoding.start + place] = span));
      windows.push({ ...encoding, spans: own });
      if (stop === ids.length) {
        break;
      }
    }
    return windows;
  }

  /** Return the characters of each token of a text: word by word, as BERT's tokenizer splits it. */
  spans(text) {
    const spans = [], found = [];
    for (const match of text.matchAll(WORDS)) {
      const pieces = this.ids(match[0]).map((id) => this.tokenizer.id_to_token(id));
      found.push(...this.ids(match[0]));
      spans.push(...wordSpans(match[0], match.index, pieces));
    }
    const whole = this.ids(text);
    if (whole.length !== found.length || whole.some((id, place) => id !== found[place])) {
      throw new Error("places in the text cannot be told for this tokenizer: only BERT's is supported.");
    }
    return spans;
  }
}

// Runs of characters without space, punctuation and ideographs, which stand alone.
const IDEOGRAPHS = "\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{2fa1f}";
const ALONE = `[\\p{P}$+<=>^\`|~${IDEOGRAPHS}]`;
const WORDS = new RegExp(`${ALONE}|(?:(?!${ALONE})[^\\s\\p{Z}])+`, "gu");

/** Return the span of each piece of a word, of which letters may have lost their accents. */
function wordSpans(word, offset, pieces) {
  const letters = [...word];
  const starts = [];
  let place = offset;
  for (const letter of letters) {
    const kept = [...letter.toLowerCase().normalize("NFD").replace(/\p{Mn}/gu, "")].length;
    for (let count = 0; count < kept; count += 1) {
      starts.push([place, place + letter.length]);
    }
    place += letter.length;
  }
  const sizes = pieces.map((piece) => [...piece.replace(/^##/, "")].length);
  if (sizes.reduce((sum, size) => sum + size, 0) !== starts.length) {
    return pieces.map(() => [offset, offset + word.length]); // [UNK]
  }
  let next = 0;
  return sizes.map((size) => {
    const span = [starts[next][0], starts[next + size - 1][1]];
    next += size;
    return span;
  });
}

function flatten(pieces, types) {
  return {
    ids: pieces.flat(),
    types: pieces.flatMap((piece, place) => piece.map(() => types[place])),
  };
}

function softmax(values) {
  const largest = Math.max(...values);
  const powers = values.map((value) => Math.exp(value - largest));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

const sigmoid = (value) => 1 / (1 + Math.exp(-value));
const argmax = (values) => values.indexOf(Math.max(...values));
const named = (labels, values) => Object.fromEntries(labels.map((label, place) => [label, values[place]]));

const readTexts = (row, reader, artifact) => ({
  encodings: [reader.text(...artifact.fields.map((name) => row[name]))],
});

// Each kind: how a row is read, and how its outputs are turned into a prediction.
const KINDS = {
  classification: {
    read: readTexts,
    decode: (row, [[logits]], details, { labels }) => {
      const probabilities = softmax(logits.values), best = argmax(probabilities);
      return { label: labels[best], score: probabilities[best], probabilities: named(labels, probabilities) };
    },
  },
  "multi-label": {
    read: readTexts,
    decode: (row, [[logits]], details, { labels, thresholds }) => {
      const probabilities = named(labels, logits.values.map(sigmoid));
      const given = labels.filter((label) => probabilities[label] >= (thresholds?.[label] ?? THRESHOLD));
      return { labels: given, probabilities };
    },
  },
  regression: {
    read: readTexts,
    decode: (row, [[logits]]) => ({ score: logits.values[0] }),
  },
  ranking: {
    read: readTexts,
    decode: (row, [[logits]]) => ({ score: sigmoid(logits.values[0]) }),
  },
  embedding: {
    read: readTexts,
    decode: (row, [[logits]]) => ({ vector: logits.values }),
  },
  "multiple-choice": {
    read: (row, reader) => ({
      encodings: row.choices.map((choice) => reader.text(row.context, `${row.question ?? ""} ${choice}`.trim())),
    }),
    decode: (row, logits) => {
      const probabilities = softmax(logits.map(([one]) => one.values[0])), choice = argmax(probabilities);
      return { choice, score: probabilities[choice], probabilities };
    },
  },
  "question-answering": {
    read: (row, reader) => {
      const encodings = reader.windows(row.question, row.context);
      return { encodings, details: encodings };
    },
    decode: (row, logits, windows, { unanswerable }) => {
      let best = { score: -Infinity, start: 0, end: 0 }, nullScore = Infinity;
      windows.forEach(({ spans }, place) => {
        const [starts, ends] = logits[place].map((one) => one.values);
        nullScore = Math.min(nullScore, starts[0] + ends[0]);
        const inside = [...spans.keys()].filter((token) => spans[token][0] >= 0);
        const top = (values) => [...inside].sort((a, b) => values[b] - values[a] || a - b).slice(0, NUM_CANDIDATES);
        for (const first of top(starts)) {
          for (const last of top(ends)) {
            const score = starts[first] + ends[last];
            if (last >= first && last - first < MAX_ANSWER_TOKENS && score > best.score) {
              best = { score, start: spans[first][0], end: spans[last][1] };
            }
          }
        }
      });
      const isNull = !Number.isFinite(best.score) || (unanswerable && nullScore > best.score);
      const { start, end } = isNull ? { start: 0, end: 0 } : best;
      const score = isNull ? nullScore : best.score;
      const prediction = { answer: row.context.slice(start, end), start, end, score };
      return unanswerable ? { ...prediction, has_answer: !isNull } : prediction;
    },
  },
  "token-classification": {
    textField: "text",
    read: (row, reader) => {
      const text = row.text ?? row.words.join(" ");
      const encoding = reader.text(text);
      const spans = reader.spans(text).slice(0, encoding.ids.length - reader.numSpecial(reader.single));
      return { encodings: [encoding], details: { ...tagText(text, row.words, spans), start: encoding.start } };
    },
    decode: (row, [[logits]], { wordTokens, words, start }, { labels }) => {
      const count = labels.length, text = row.text ?? row.words.join(" ");
      const sure = [];
      const tags = words.map((_, word) => {
        const token = wordTokens[word];
        if (token < 0) {
          return "O";
        }
        const place = (start + token) * count;
        const probabilities = softmax(logits.values.slice(place, place + count));
        sure[word] = Math.max(...probabilities);
        return labels[argmax(probabilities)];
      });
      const entities = findEntities(tags).map(([label, first, last]) => {
        const scores = words.slice(first, last + 1).map((_, place) => sure[first + place]);
        const [from, to] = [words[first][0], words[last][1]];
        const isSplit = row.words !== undefined;
        return {
          label,
          text: isSplit ? row.words.slice(first, last + 1).join(" ") : text.slice(from, to),
          start: isSplit ? first : from,
          end: isSplit ? last + 1 : to,
          score: Math.min(...scores),
        };
      });
      return { entities };
    },
  },
};

/** Return the words of a text with their spans, and the token at the beginning of each; -1 if it has none. */
function tagText(text, given, spans) {
  const tokenAt = (place) => spans.findIndex(([start, end]) => start <= place && place < end);
  if (given !== undefined) {
    let start = 0;
    const used = new Set();
    const words = [], wordTokens = [];
    for (const word of given) {
      const token = tokenAt(start + Math.max(0, word.search(/\S/u)));
      words.push([start, start + word.length]);
      wordTokens.push(used.has(token) ? -1 : token);
      for (const part of word.matchAll(PARTS)) {
        used.add(tokenAt(start + part.index));
      }
      start += word.length + 1;
    }
    return { words, wordTokens };
  }
  const words = [], wordTokens = [];
  for (const part of text.matchAll(PARTS)) {
    const token = tokenAt(part.index), end = part.index + part[0].length;
    if (token >= 0 && wordTokens.includes(token)) {
      words.at(-1)[1] = end; // a token with several parts makes them one word
    } else {
      words.push([part.index, end]);
      wordTokens.push(token);
    }
  }
  return { words, wordTokens };
}

const PARTS = /[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s]/gu;

/** Return label, first and last word of each entity, as conlleval reads B-, I-, E- and S-. */
function findEntities(tags) {
  const found = [];
  let before = "O", ended = true;
  tags.forEach((tag, place) => {
    const [part, kind] = tag.includes("-") ? [tag.slice(0, tag.indexOf("-")), tag.slice(tag.indexOf("-") + 1)] : ["I", tag];
    if (tag === "O") {
      [before, ended] = ["O", true];
      return;
    }
    const goesOn = !ended && before === kind && part !== "B" && part !== "S";
    found.push([kind, goesOn ? found.pop()[1] : place, place]);
    [before, ended] = [kind, part === "E" || part === "S"];
  });
  return found;
}

async function open(url) {
  const response = await fetch(url);
  if (!response.ok) {
    throw new Error(`${url} cannot be read: ${response.status}`);
  }
  return response;
}

async function download(url, total, onProgress) {
  const reader = (await open(url)).body.getReader();
  const parts = [];
  let loaded = 0;
  for (let step = await reader.read(); !step.done; step = await reader.read()) {
    parts.push(step.value);
    loaded += step.value.length;
    onProgress(loaded, total);
  }
  const whole = new Uint8Array(loaded);
  let place = 0;
  for (const part of parts) {
    whole.set(part, place);
    place += part.length;
  }
  return whole;
}
