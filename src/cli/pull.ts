import { existsSync, mkdirSync, readFileSync, realpathSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Command } from 'commander'
import { isMap, isScalar, isSeq, stringify, type Document, type YAMLMap } from 'yaml'
import type { AnswerOf } from '../api/routes/index.ts'
import { apiOf, command, organizationOf, type Shared } from './command.ts'
import { Failure } from './failure.ts'
import {
  isLeftOut,
  isObjectFile,
  organizationFile,
  readObjects,
  repositoryRoot,
  type ObjectFile,
} from './files.ts'
import type { Api } from './http.ts'
import { say, writeJson, writeLine } from './terminal.ts'

export function addPull(program: Command): void {
  command(
    program,
    'pull <folder>',
    'write what the organization has into files, one object a file; comments stay',
  ).action(pull)
}

type Fields = Readonly<Record<string, unknown>>
type Declared = Fields & { readonly kind: string }

async function pull(folder: string, { json }: Shared): Promise<void> {
  mkdirSync(folder, { recursive: true })
  const top = realpathSync(folder)
  const files = readObjects(top)
  const known = new Map(files.map((file) => [keyOf(file.object), file]))
  if (known.size < files.length)
    throw new Failure('two files declare the same object: `countersign plan` names them')
  const written: { path: string; action: 'written' | 'changed' }[] = []
  const api = apiOf()
  const id = await organizationOf(api)
  const listed = await objectsOf(api, id)
  const repository = onlyRepository(listed)
  for (const { managed_by: managed, ...rest } of listed) {
    const file = known.get(keyOf(rest))
    known.delete(keyOf(rest))
    const object = rest.kind === 'organization' ? await withNamed(api, id, file, { rest, repository }) : rest
    const path = file?.file ?? samePath(top, managed?.path ?? null) ?? freePath(top, object)
    const text = file === undefined ? textOf(path, bare(object)) : changedText(file, object)
    if (text === null) continue
    writeText(top, path, text, file === undefined)
    written.push({
      path: relative(top, path).split(sep).join('/'),
      action: file === undefined ? 'written' : 'changed',
    })
  }
  const gone = [...known.values()].map(({ path }) => path)
  if (json === true) return writeJson({ written, only_in_files: gone })
  for (const { action, path } of written) writeLine(action, path)
  for (const path of gone)
    say(`${path}: the organization has no such object; apply makes it, or delete the file`)
  say(written.length === 0 ? 'the files are up to date' : `${written.length} files written`, 'bold')
}

/** What makes two of a kind the same, as the server matches them. */
const keyOf = (object: Declared): string =>
  JSON.stringify([
    object.kind,
    ...(object.kind === 'organization'
      ? []
      : object.kind === 'workflow'
        ? [object['slug']]
        : [object['name'] ?? null, object['tool_name'] ?? null, object['role'] ?? null]),
  ])

const mostObjects = 20_000

type Listed = AnswerOf<'GET /organizations/{id}/objects'>['data'][number]

async function objectsOf(api: Api, id: string): Promise<Listed[]> {
  const all: Listed[] = []
  for (let cursor: string | undefined; ;) {
    const page: AnswerOf<'GET /organizations/{id}/objects'> = await api.call(
      'GET /organizations/{id}/objects',
      { params: { id }, query: { limit: '200', ...(cursor === undefined ? {} : { cursor }) } },
    )
    all.push(...page.data)
    if (page.next_cursor === null) return all
    if (all.length > mostObjects) throw new Failure(`the organization has more than ${mostObjects} objects`)
    cursor = page.next_cursor
  }
}

/** A plan of the files names it, so the file of the settings says it. Null if the files are of several or of none. */
function onlyRepository(listed: readonly Listed[]): string | null {
  const [only = null, ...others] = new Set(listed.flatMap((each) => each.managed_by?.repository ?? []))
  return others.length === 0 ? only : null
}

/** The list has only settings that are not at their default. Those that the file names are compared, too. */
async function withNamed(
  api: Api,
  id: string,
  file: ObjectFile | undefined,
  { rest, repository }: { readonly rest: Declared; readonly repository: string | null },
): Promise<Declared> {
  const { kind, ...given } = rest
  const where = file?.repository ?? repository
  const named = { kind, ...(where === null ? {} : { repository: where }), ...given }
  if (file === undefined) return named
  const settings = await api.call('GET /organizations/{id}/governance', { params: { id } })
  const compared = Object.entries(settings).filter(([name]) => Object.hasOwn(file.object, name))
  return { ...Object.fromEntries(compared), ...named }
}

/** Fields that a file can leave out, because the server takes these values for them. Every other value says something. */
const defaults: Readonly<Record<string, Fields>> = {
  rule: { status: 'active' },
  label_rule: { status: 'active' },
  group: { description: '', members: [] },
  tool_policy: { restrictions: {} },
  workflow: { description: '', protected: false },
}

const isUsual = (kind: string, name: string, value: unknown): boolean =>
  isDeepStrictEqual(defaults[kind]?.[name], value)

const bare = (object: Declared): Declared =>
  Object.fromEntries(
    Object.entries(object).filter(([name, value]) => !isUsual(object.kind, name, value)),
  ) as Declared

const folders: Readonly<Record<string, string>> = {
  rule: 'rules',
  label_rule: 'labels',
  group: 'groups',
  tool_policy: 'policies',
  role_override: 'policies',
  workflow: 'workflows',
}

/** Where the object came from, so that a plan moves nothing. Null for a path that `readObjects` would not read here. */
function samePath(top: string, managed: string | null): string | null {
  if (managed === null || !isObjectFile(managed) || managed.split('/').some(isLeftOut)) return null
  const path = join(repositoryRoot(top), managed)
  return path.startsWith(`${top}${sep}`) && !existsSync(path) ? path : null
}

/** Names are a stranger's: only letters and digits of them become a path. */
function freePath(top: string, object: Declared): string {
  if (object.kind === 'organization') return join(top, organizationFile)
  const names = [object['slug'] ?? object['name'] ?? object['tool_name'], object['role']]
  const word =
    names
      .filter((name) => typeof name === 'string')
      .join('-')
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '-')
      .replaceAll(/^-+|-+$/g, '')
      .slice(0, 80) || 'object'
  const folder = join(top, folders[object.kind] ?? 'others')
  for (let count = 1; ; count += 1) {
    const path = join(folder, `${word}${count === 1 ? '' : `-${count}`}.yaml`)
    if (!existsSync(path)) return path
  }
}

const textOf = (path: string, object: Declared): string =>
  path.endsWith('.json') ? `${JSON.stringify(object, null, 2)}\n` : stringify(object)

/** Never through a link out of the folder. */
function writeText(top: string, path: string, text: string, isNew: boolean): void {
  mkdirSync(dirname(path), { recursive: true })
  const folder = realpathSync(dirname(path))
  if (folder !== top && !folder.startsWith(`${top}${sep}`))
    throw new Failure(`\`${path}\` leads out of the folder: put a folder in place of the link`)
  if (isNew) return writeFileSync(path, text, { flag: 'wx' })
  const making = `${path}.${process.pid}`
  writeFileSync(making, text, { flag: 'wx' })
  renameSync(making, realpathSync(path))
}

/** Null if the file says the same already. */
function changedText(file: ObjectFile, object: Declared): string | null {
  const { document } = file.yaml
  const own = document.toJS({ maxAliasCount: 0 }) as Fields
  const wanted = withKept(object.kind, own, inFormOf(own, bare(object)))
  if (!merge(document, document.contents, own, wanted)) return null
  return file.file.endsWith('.json')
    ? `${JSON.stringify(document.toJS({ maxAliasCount: 0 }), null, 2)}\n`
    : document.toString({ lineWidth: 120, flowCollectionPadding: hasPadding(file) })
}

/** `[ a ]` and not `[a]`: what is there stays as it is. */
const hasPadding = ({ file }: ObjectFile): boolean => /[[{] /.test(readFileSync(file, 'utf8'))

/** A file may be a definition alone, and that of the organization needs no kind. */
function inFormOf(own: Fields, object: Declared): Fields {
  const { kind, definition, ...names } = object
  if (own['kind'] !== undefined) return object
  if (kind !== 'workflow') return names
  // A definition cannot say it, and what no file says stays as it is.
  const { protected: _, ...rest } = names
  return { ...rest, ...(definition as Fields) }
}

/** With what the file has and the server does not: its defaults, and where editors find the form of definitions. */
function withKept(kind: string, own: Fields, wanted: Fields): Fields {
  const kept = Object.entries(own).filter(
    ([name, value]) => !Object.hasOwn(wanted, name) && (name === '$schema' || isUsual(kind, name, value)),
  )
  const [before, after] = [own['definition'], wanted['definition']]
  const definition =
    isFields(before) && isFields(after) && Object.hasOwn(before, '$schema')
      ? { definition: { ...after, $schema: before['$schema'] } }
      : {}
  return { ...wanted, ...definition, ...Object.fromEntries(kept) }
}

/** Makes the node say `wanted`, and returns whether something changed. What stays equal keeps its comments and form. */
function merge(document: Document, node: unknown, own: unknown, wanted: unknown): boolean {
  if (isMap(node) && isFields(own) && isFields(wanted)) return mergeFields(document, node, own, wanted)
  if (isSeq(node) && Array.isArray(own) && Array.isArray(wanted)) {
    let isChanged = own.length !== wanted.length
    node.items.length = Math.min(own.length, wanted.length)
    for (const [index, value] of wanted.entries()) {
      if (index >= own.length) node.add(document.createNode(value))
      else if (!isDeepStrictEqual(own[index], value)) {
        isChanged = true
        if (!canMerge(node.items[index], own[index], value)) node.set(index, document.createNode(value))
        else merge(document, node.items[index], own[index], value)
      }
    }
    return isChanged
  }
  return false
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const canMerge = (node: unknown, own: unknown, wanted: unknown): boolean =>
  (isMap(node) && isFields(own) && isFields(wanted)) ||
  (isSeq(node) && Array.isArray(own) && Array.isArray(wanted))

function mergeFields(document: Document, node: YAMLMap, own: Fields, wanted: Fields): boolean {
  let isChanged = false
  for (const name of Object.keys(own))
    if (!Object.hasOwn(wanted, name)) {
      node.delete(name)
      isChanged = true
    }
  for (const [name, value] of Object.entries(wanted)) {
    if (isDeepStrictEqual(own[name], value)) continue
    isChanged = true
    const before = node.get(name, true)
    if (canMerge(before, own[name], value)) merge(document, before, own[name], value)
    else if (isScalar(before) && (typeof value !== 'object' || value === null)) before.value = value
    else node.set(name, document.createNode(value))
  }
  return isChanged
}
