/* What can stand at a place in the text of a workflow. The text is read line by line: while one writes, it is no YAML. */

/** Parts of a JSON Schema. */
export interface Schema {
  readonly description?: string
  readonly enum?: readonly unknown[]
  readonly type?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly additionalProperties?: Schema | boolean
  readonly anyOf?: readonly Schema[]
}

export interface Tool {
  readonly name: string
  readonly description: string
  readonly params: Schema
  readonly output: Schema
}

/** What completion knows beside the text. */
export interface Known {
  readonly tools: readonly Tool[]
  /** The schema of a definition; null if it is not served. */
  readonly schema: Schema | null
  readonly functions: readonly string[]
  readonly inputs: readonly string[]
  /** The tool of each step by its id; null for a step without a tool. */
  readonly steps: Readonly<Record<string, string | null>>
}

export interface Choice {
  readonly label: string
  readonly detail?: string
  readonly info?: string
  /** If it is more than the label. */
  readonly apply?: string
}

interface Choices {
  /** How many characters before the place they replace. */
  readonly typed: number
  readonly list: readonly Choice[]
}

/** `before` is the text up to the place, and `after` the rest. */
export function choicesAt(before: string, after: string, known: Known): Choices | null {
  const line = before.slice(before.lastIndexOf('\n') + 1)
  const opened = line.lastIndexOf('{{')
  if (opened > line.lastIndexOf('}}')) return inExpression(line.slice(opened + 2), known)
  const tool = /^[\s{,-]*["']?tool["']?:\s*["']?(\w*)$/.exec(line)
  if (tool !== null)
    return {
      typed: tool[1]?.length ?? 0,
      list: known.tools.map(({ name, description }) => ({ label: name, info: description })),
    }
  const value = /^[\s-]*["']?([\w$]+)["']?:\s*["']?(\w*)$/.exec(line)
  const field = /^[\s-]*["']?([\w$]*)$/.exec(line)
  if (value === null && field === null) return null
  const place = placeOf(before, after)
  const around = schemaAt(place, known)
  if (value !== null) return valuesOf(around?.properties?.[value[1] ?? ''], value[2] ?? '')
  const names = Object.entries(around?.properties ?? {})
  return {
    typed: field?.[1]?.length ?? 0,
    list: names
      .filter(([name]) => !place.siblings.includes(name))
      .map(([name, each]) => ({ label: name, apply: `${name}: `, ...infoOf(each) })),
  }
}

const infoOf = (schema: Schema): Pick<Choice, 'info' | 'detail'> => {
  const one = plain(schema)
  return {
    ...(one.description === undefined ? {} : { info: one.description }),
    ...(one.type === undefined ? {} : { detail: one.type }),
  }
}

/** Without the templates that can stand in place of a value. */
const plain = (schema: Schema): Schema => schema.anyOf?.[0] ?? schema

function valuesOf(schema: Schema | undefined, typed: string): Choices | null {
  const { enum: values, type } = schema === undefined ? {} : plain(schema)
  const all = values ?? (type === 'boolean' ? [true, false] : [])
  return all.length === 0 ? null : { typed: typed.length, list: all.map((each) => ({ label: String(each) })) }
}

/** The words of an expression, and behind a dot what the value before it has. */
function inExpression(text: string, { tools, functions, inputs, steps }: Known): Choices | null {
  // In a text of the expression, nothing is completed.
  if ((text.match(/'/g)?.length ?? 0) % 2 === 1) return null
  const path = /[\w.-]*$/.exec(text)?.[0] ?? ''
  const parts = path.split('.')
  const typed = parts.at(-1)?.length ?? 0
  const [first = '', second, ...deeper] = parts.slice(0, -1)
  if (parts.length === 1)
    return {
      typed,
      list: [
        { label: 'input', detail: 'what the run was started with', apply: 'input.' },
        ...Object.entries(steps).map(([id, tool]) => ({
          label: id,
          detail: tool ?? 'step',
          apply: `${id}.`,
        })),
        ...['today', 'yesterday', 'now', 'item', 'run.id', 'run.requester.email', 'workflow.name'].map(
          (label) => ({
            label,
          }),
        ),
        ...functions.map((label) => ({ label, detail: 'function', apply: `${label}(` })),
      ],
    }
  if (first === 'input')
    return second === undefined ? { typed, list: inputs.map((label) => ({ label })) } : null
  if (!Object.hasOwn(steps, first)) return null
  if (second === undefined)
    return { typed, list: ['output', 'status', 'approval'].map((label) => ({ label })) }
  if (second === 'approval') return { typed, list: [{ label: 'comment' }] }
  let output = tools.find(({ name }) => name === steps[first])?.output
  for (const name of deeper) output = output && plain(output).properties?.[name]
  const fields = Object.entries((output && plain(output).properties) ?? {})
  return second === 'output'
    ? { typed, list: fields.map(([label, each]) => ({ label, ...infoOf(each) })) }
    : null
}

interface Place {
  /** The names of the fields around it, from the outermost. */
  readonly path: readonly string[]
  /** The names that already stand beside it. */
  readonly siblings: readonly string[]
  /** The tool of the step around it. */
  readonly tool: string | null
}

interface Line {
  /** Where its content begins: behind a dash. */
  readonly indent: number
  readonly startsItem: boolean
  readonly name: string | null
  readonly value: string
}

function lineOf(text: string): Line | null {
  const [, blanks = '', dashes = '', name = null, value = '', rest = ''] =
    /^(\s*)((?:- +|-$)*)(?:["']?([\w$-]+)["']?:(.*)|(.*))$/.exec(text) ?? []
  if (name === null && (rest.trim() === '' || rest.startsWith('#')) && dashes === '') return null
  return { indent: blanks.length + dashes.length, startsItem: dashes !== '', name, value: value.trim() }
}

function placeOf(before: string, after: string): Place {
  const above = before.split('\n')
  const own = above.pop() ?? ''
  const { 0: blanks = '' } = /^\s*(?:- +)*/.exec(own) ?? []
  const isItem = own.trimStart().startsWith('-')
  const siblings: string[] = []
  const path: string[] = []
  let indent = blanks.length
  let isBeside = !isItem
  let tool: string | null = null
  for (const text of above.toReversed()) {
    const line = lineOf(text)
    if (line === null || line.indent > indent) continue
    if (line.indent === indent) {
      if (isBeside && line.name !== null) {
        if (path.length === 0) siblings.push(line.name)
        if (line.name === 'tool') tool ??= unquoted(line.value)
      }
      if (line.startsItem) isBeside = false
      continue
    }
    if (line.name === null) continue
    path.unshift(line.name)
    indent = line.indent
    isBeside = !line.startsItem
    if (line.name === 'tool') tool ??= unquoted(line.value)
  }
  return { path, siblings, tool: tool ?? toolBelow(after, path.at(-1) === 'params' ? null : blanks.length) }
}

const unquoted = (text: string): string => text.replaceAll(/["',]/g, '').trim()

/** A tool that stands below the place, in the same step. */
function toolBelow(after: string, indent: number | null): string | null {
  for (const text of after.split('\n').slice(1)) {
    const line = lineOf(text)
    if (line === null) continue
    if (line.startsItem || (indent !== null && line.indent < indent)) return null
    if (line.name === 'tool') return unquoted(line.value)
  }
  return null
}

/** The schema of the object around the place. */
function schemaAt({ path, tool }: Place, { schema, tools }: Known): Schema | null {
  if (path[0] === 'steps' && path[1] === 'params') {
    let at: Schema | undefined = tools.find(({ name }) => name === tool)?.params
    for (const name of path.slice(2)) at = within(at, name)
    return at ?? null
  }
  let at: Schema | undefined = schema ?? undefined
  for (const name of path) at = within(at, name)
  return at ?? null
}

function within(schema: Schema | undefined, name: string): Schema | undefined {
  const { properties, additionalProperties } = schema === undefined ? {} : plain(schema)
  const own =
    properties?.[name] ?? (typeof additionalProperties === 'object' ? additionalProperties : undefined)
  return own && (plain(own).items ?? plain(own))
}
