import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { marked } from 'marked'
import {
  anchorOf,
  plainText,
  type DocumentHead,
  type Documents,
  type Heading,
  type Operation,
  type Parameter,
  type Shelf,
} from '../../console/documents.ts'

/** The build has a copy of those for users. */
const folder = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? '../../../docs/' : '../../docs/', import.meta.url),
)

/** For people who work on the service itself. */
const internal = new Set(['README', 'performance'])

/** Files of documents for users, below docs. The build copies them. */
export function documentFiles(): string[] {
  const files = [
    ...readdirSync(folder),
    ...readdirSync(`${folder}reference`).map((each) => `reference/${each}`),
  ]
  return files.filter((each) => each.endsWith('.md') || each === 'openapi.json')
}

/** Read once, when somebody opens the first document. */
export function createDocuments(): Documents {
  let shelves: readonly Shelf[] | undefined
  let operations: readonly Operation[] | undefined
  const all = () => (shelves ??= readShelves())
  return {
    get shelves() {
      return all()
    },
    get operations() {
      return (operations ??= readOperations())
    },
    read(name) {
      const head = all()
        .flatMap(({ documents }) => documents)
        .find((each) => each.name === name)
      return head === undefined ? null : { head, tokens: marked.lexer(textOf(name)) }
    },
  }
}

const textOf = (name: string): string => readFileSync(`${folder}${name}.md`, 'utf8')

/** In the order of docs/README.md, which names each document in a table of its shelf. */
function readShelves(): Shelf[] {
  const heads = new Map(
    documentFiles()
      .filter((file) => file.endsWith('.md'))
      .map((file) => file.slice(0, -'.md'.length))
      .filter((name) => !internal.has(name))
      .map((name) => [name, headOf(name)] as const),
  )
  const taken = (title: string, names: readonly string[]): Shelf => {
    const documents = [...new Set(names)].flatMap((name) => heads.get(name) ?? [])
    for (const { name } of documents) heads.delete(name)
    return { title, documents }
  }
  const listed = marked.lexer(textOf('README')).flatMap((token) => {
    if (token.type !== 'table') return []
    const names = [...token.raw.matchAll(/\]\(([\w/-]+)\.md[)#]/g)].map(([, name = '']) => name)
    return [
      taken(
        String(token.header[0]?.text),
        names.filter((name) => !name.startsWith('reference/')),
      ),
    ]
  })
  const shelves = listed.filter(({ documents }) => documents.length > 0)
  return [...shelves, taken('Reference', [...heads.keys()].toSorted())]
}

function headOf(name: string): DocumentHead {
  const headings = headingsIn(textOf(name))
  return { name, title: headings[0]?.text ?? name, headings }
}

/** Levels 1 to 3, without lines of code. */
function headingsIn(text: string): Heading[] {
  let isCode = false
  return text.split('\n').flatMap((line) => {
    if (/^\s*(```|~~~)/.test(line)) isCode = !isCode
    const [, marks = '', words = ''] = /^(#{1,3}) +(.+)$/.exec(line) ?? []
    if (isCode || marks === '') return []
    const shown = plainText(words.trim())
    return [{ depth: marks.length, text: shown, anchor: anchorOf(shown) }]
  })
}

interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly allOf?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly description?: string
}

interface Described {
  readonly operationId: string
  readonly tags: readonly string[]
  readonly summary: string
  readonly description?: string
  readonly 'x-scope'?: string
  readonly 'x-further-scopes'?: readonly string[]
  readonly 'x-minimum-role'?: string
  readonly parameters?: readonly (Schema & {
    readonly name: string
    readonly in: Parameter['place']
    readonly required?: boolean
    readonly schema: Schema
  })[]
  readonly requestBody?: { readonly content: Content }
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>
}
type Content = Readonly<Record<string, { readonly schema?: Schema; readonly example?: unknown }>>

interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

/** Headers that every operation takes say nothing about one. */
const everywhere = new Set(['X-Request-Id', 'Idempotency-Key'])

function readOperations(): Operation[] {
  const api = JSON.parse(readFileSync(`${folder}openapi.json`, 'utf8')) as OpenApi
  return Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => operationOf(api, path, method, described)),
  )
}

function operationOf(api: OpenApi, path: string, method: string, given: Described): Operation {
  const body = given.requestBody?.content['application/json']
  const answer = Object.entries(given.responses).find(([status]) => status.startsWith('2'))?.[1]
  return {
    id: given.operationId,
    method: method.toUpperCase(),
    path,
    area: given.tags[0] ?? 'Service',
    summary: given.summary,
    description: given.description ?? null,
    scopes: [given['x-scope'] ?? [], given['x-further-scopes'] ?? []].flat(),
    role: given['x-minimum-role'] ?? null,
    parameters: (given.parameters ?? [])
      .filter(({ name }) => !everywhere.has(name))
      .map(({ name, in: place, required = false, schema, description }) => ({
        name,
        place,
        isNeeded: required,
        type: typeOf(schema),
        description: description ?? schema.description ?? '',
      })),
    body: body === undefined ? null : fieldsOf(api, body.schema ?? {}),
    example: { body: body?.example, answer: answer?.content?.['application/json']?.example },
  }
}

function fieldsOf(api: OpenApi, schema: Schema): Parameter[] {
  const { properties = {}, required = [], allOf = [] } = resolved(api, schema)
  const own = Object.entries(properties).map(([name, field]): Parameter => ({
    name,
    place: 'body',
    isNeeded: required.includes(name),
    type: typeOf(field),
    description: field.description ?? '',
  }))
  return [...own, ...allOf.flatMap((part) => fieldsOf(api, part))]
}

const resolved = ({ components }: OpenApi, schema: Schema): Schema =>
  schema.$ref === undefined ? schema : (components.schemas[schema.$ref.split('/').at(-1) ?? ''] ?? {})

/** In a few words. A schema with a name has the name that `openapi.json` gives it. */
function typeOf(schema: Schema): string {
  if (schema.$ref !== undefined) return schema.$ref.split('/').at(-1) ?? ''
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.enum !== undefined) return schema.enum.map((each) => JSON.stringify(each)).join(' or ')
  const parts = schema.anyOf ?? schema.allOf
  if (parts !== undefined) return [...new Set(parts.map(typeOf))].join(' or ')
  if (schema.type === 'array') return `list of ${typeOf(schema.items ?? {})}`
  return schema.type === undefined ? 'any' : [schema.type].flat().join(' or ')
}
