/** JSON text, each part made when asked for, so it is never whole in memory. Between parts nothing is held. */
export class JsonParts implements AsyncIterable<string> {
  readonly #parts: () => AsyncIterator<string>

  constructor(parts: () => AsyncIterator<string>) {
    this.#parts = parts
  }

  [Symbol.asyncIterator](): AsyncIterator<string> {
    return this.#parts()
  }

  async text(): Promise<string> {
    let text = ''
    for await (const part of this) text += part
    return text
  }
}

export class ObjectParts extends JsonParts {
  readonly #fields: Readonly<Record<string, unknown>>

  constructor(fields: Readonly<Record<string, unknown>>) {
    super(() => fieldsInParts(fields))
    this.#fields = fields
  }

  /** The values of the other fields are never read. */
  only(names: readonly string[]): ObjectParts {
    return new ObjectParts(
      Object.fromEntries(Object.entries(this.#fields).filter(([name]) => names.includes(name))),
    )
  }
}

/** The text of `JSON.stringify(fields)`. A value may itself be in parts. */
export const objectInParts = (fields: Readonly<Record<string, unknown>>): ObjectParts =>
  new ObjectParts(fields)

async function* fieldsInParts(fields: Readonly<Record<string, unknown>>): AsyncGenerator<string> {
  let before = '{'
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue
    const start = `${before}${JSON.stringify(name)}:`
    before = ','
    if (value instanceof JsonParts) {
      yield start
      yield* value
    } else yield start + JSON.stringify(value)
  }
  yield before === '{' ? '{}' : '}'
}

export function entriesInParts(entries: () => AsyncIterable<readonly [string, unknown]>): JsonParts {
  return new JsonParts(async function* () {
    let before = '{'
    for await (const [name, value] of entries()) {
      yield `${before}${JSON.stringify(name)}:`
      before = ','
      if (value instanceof JsonParts) yield* value
      else yield JSON.stringify(value)
    }
    yield before === '{' ? '{}' : '}'
  })
}

export function listInParts(values: () => AsyncIterable<unknown>): JsonParts {
  return new JsonParts(async function* () {
    let before = '['
    for await (const value of values()) {
      if (value instanceof JsonParts) {
        yield before
        yield* value
      } else yield before + JSON.stringify(value)
      before = ','
    }
    yield before === '[' ? '[]' : ']'
  })
}
