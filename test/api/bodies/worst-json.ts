/** A JSON text that is as expensive to parse as its number of bytes and values allows. */
export interface WorstJson {
  readonly name: string
  /** Is built when it is read. */
  readonly text: string
}

/** A list or object with as many entries as fit into `bytes`, at most `most`. */
function fill(
  open: string,
  close: string,
  bytes: number,
  most: number,
  entry: (index: number) => string,
): string {
  const entries: string[] = []
  let left = bytes - 2
  for (let index = 0; entries.length < most; index += 1) {
    const each = entry(index)
    left -= each.length + 1
    if (left < 0) break
    entries.push(each)
  }
  return `${open}${entries.join(',')}${close}`
}
const list = (bytes: number, most: number, entry: (index: number) => string) =>
  fill('[', ']', bytes, most, entry)
const object = (bytes: number, most: number, entry: (index: number) => string) =>
  fill('{', '}', bytes, most, entry)

const nested = (levels: number, inner: string, key = 'k') =>
  `${`{"${key}":`.repeat(levels)}${inner}${'}'.repeat(levels)}`
const lists = (levels: number, inner = '') => `${'['.repeat(levels)}${inner}${']'.repeat(levels)}`
const text = (bytes: number, part: string) =>
  `"${part.repeat(Math.floor((bytes - 2) / Buffer.byteLength(part)))}"`
const padded = (index: number, length: number) => String(index).padStart(length, 'k')

/**
 * Texts of at most `bytes` bytes and about `values` values. Each text is the worst of its kind for JSON parsers and for
 * code that walks the value. `key` is the length of the longest accepted key.
 */
export function worstJson(bytes: number, values: number, key = 1_000): WorstJson[] {
  const most = values - 100
  // The greatest allowed depth, minus room for the surrounding body.
  const deep = 56
  const shapes: Record<string, () => string> = {
    'a key of half the body over a list': () =>
      `{"${'k'.repeat(bytes / 2)}":${list(bytes / 2 - 10, most, () => '0')}}`,
    'the longest key over a wide list': () =>
      `{"${'k'.repeat(key)}":${list(bytes - key - 10, most, () => '0')}}`,
    'the longest keys, one in the other, over a wide list': () =>
      nested(
        50,
        list(bytes - 50 * (key + 10), most - 50, () => '0'),
        'k'.repeat(key),
      ),
    'many long keys': () => object(bytes, most, (n) => `"${padded(n, key)}":0`),
    'many long keys with signs of three bytes': () =>
      object(bytes / 3, most, (n) => `"${'鍵'.repeat(key - 10)}${padded(n, 10)}":0`),
    'many short keys': () => object(bytes, most, (n) => `"${n.toString(36)}":0`),
    'many keys that are numbers': () => object(bytes, most, (n) => `"${n * 64}":0`),
    'many keys with escapes': () => object(bytes, most, (n) => `"\\u006b${n}":0`),
    'a repeated key behind many': () =>
      `${object(bytes - 20, most, (n) => `"${n.toString(36)}":0`).slice(0, -1)},"1":0}`,
    'many objects with one key': () => list(bytes, most / 2, () => '{"a":0}'),
    'many objects with keys of their own': () => list(bytes, most / 2, (n) => `{"${n.toString(36)}":0}`),
    'many empty objects': () => list(bytes, most, () => '{}'),
    'many empty lists': () => list(bytes, most, () => '[]'),
    'many empty texts': () => list(bytes, most, () => '""'),
    'many zeros': () => list(bytes, most, () => '0'),
    'too many zeros': () => list(bytes, Infinity, () => '0'),
    'many nulls': () => list(bytes, most, () => 'null'),
    'many short texts': () => list(bytes, most, (n) => `"${n.toString(36)}"`),
    'many numbers of many digits': () => list(bytes, most, () => `0.${'123456789'.repeat(85)}e-300`),
    'many numbers that are hard to round': () =>
      list(bytes, most, (n) => `2.22507385850720${n % 10}136e-308`),
    'one number of all digits': () => `[1.${'7'.repeat(bytes - 10)}]`,
    'one whole number of all digits': () => `[${'7'.repeat(bytes - 10)}]`,
    'many deep lists': () => list(bytes, most / deep, () => lists(deep)),
    'many deep objects': () => list(bytes, most / deep, () => nested(deep, '0')),
    'a list in a list, each wide': () => list(bytes, most / 310, () => list(900, 300, () => '0')),
    'deeper than is allowed': () => lists(bytes / 2 - 10),
    'one long text': () => text(bytes, 'x'),
    'one long text of escapes': () => text(bytes, '\\u0041'),
    'one long text of backslashes': () => text(bytes, '\\\\'),
    'one long text of line breaks': () => text(bytes, '\\n'),
    'one long text of spaces': () => text(bytes, ' '),
    'one long text of control characters': () => text(bytes, '\\u0001'),
    'one long text of marks on a letter': () => text(bytes, '\u0301\u0323'),
    'one long text of emoji': () => text(bytes, '😀'),
    'one long text of dots': () => text(bytes, '.'),
    'one long text of slashes': () => text(bytes, '../'),
    'one long text of opened templates': () => text(bytes, '{{'),
    'one long text of templates': () => text(bytes, '{{a}}'),
    'one long text of addresses': () => text(bytes, 'a@b.c,'),
    'one long text of links': () => text(bytes, 'https://docs.google.com/d/'),
    'one long text of a shell’s words': () => text(bytes, '$(a;'),
    'one long text with half of a pair at its end': () => `"${'x'.repeat(bytes - 10)}\\ud800"`,
    'many texts of templates': () => list(bytes, most, () => '"{{input.a.b.c}}"'),
    'many texts of escapes': () => list(bytes, most, () => '"\\ud83d\\ude00"'),
    'white space': () => `[${' '.repeat(bytes - 2)}]`,
  }
  return Object.entries(shapes).map(([name, make]) => ({
    name,
    get text() {
      return make()
    },
  }))
}

const kinds = new Map(
  worstJson(10_000, 1_000).map(({ name, text }) => {
    const first = text.charAt(0)
    return [name, first === '"' ? 'text' : first === '[' ? 'list' : 'object'] as const
  }),
)
/** Whether the text is a text, a list or an object. */
export const kindOf = ({ name }: Pick<WorstJson, 'name'>): 'text' | 'list' | 'object' | undefined =>
  kinds.get(name)
