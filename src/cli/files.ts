import { lstatSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { readYaml, YamlMistake, type ReadYaml } from '../shared/yaml.ts'
import { Failure, type Detail } from './failure.ts'

/*
 * Objects in files: YAML or JSON, one object a file. What is in the folder may come from a stranger's branch, so each
 * size has a limit, and no link leads out of the folder.
 */

export interface ObjectFile {
  /** Absolute. */
  readonly file: string
  /** As the server and people get it: from the root of the repository, with `/`. */
  readonly path: string
  readonly object: Readonly<Record<string, unknown>> & { readonly kind: string }
  /** Only the settings have it: where the files are, unless `--repository` says another place. */
  readonly repository: string | null
  readonly yaml: ReadYaml
}

export const kinds = [
  'organization',
  'rule',
  'label_rule',
  'group',
  'tool_policy',
  'role_override',
  'workflow',
] as const

/** The settings of the organization. */
export const organizationFile = 'countersign.yaml'
const mostFiles = 5_000
const mostBytes = 512 * 1024
const mostTogether = 32 * 1024 * 1024
const mostDeep = 20

/** All objects of a folder, or that of one file. Throws with every mistake and its place. */
export function readObjects(given: string): readonly ObjectFile[] {
  const { objects, mistakes } = readFlawed(given)
  if (mistakes.length > 0) throw new Failure(mistakes)
  return objects
}

interface Flawed {
  readonly objects: readonly ObjectFile[]
  readonly mistakes: readonly string[]
}

/** The objects that can be read, and the first mistakes of the files that cannot. */
export function readFlawed(given: string): Flawed {
  const files = filesBelow(given)
  const root = repositoryRoot(resolve(given))
  const objects: ObjectFile[] = []
  const mistakes: string[] = []
  let together = 0
  for (const file of files) {
    const path = relative(root, file).split(sep).join('/')
    try {
      const bytes = readBytes(file, path)
      together += bytes.length
      if (together > mostTogether)
        throw new Failure('the folder has more than 32 MiB of files: name a smaller one')
      const yaml = readYaml(bytes)
      objects.push({ file, path, ...readObject(path, yaml), yaml })
    } catch (error) {
      if (error instanceof YamlMistake)
        mistakes.push(`${path}: ${error.place === null ? '' : `${error.place}: `}${error.message}`)
      else if (error instanceof Failure) mistakes.push(...error.lines)
      else throw error
    }
  }
  return { objects, mistakes: mistakes.slice(0, 100) }
}

/** As `readObjects`. An empty folder is rather a wrong one than a wish to delete everything, so it is refused. */
export function someObjects(given: string): readonly ObjectFile[] {
  const files = readObjects(given)
  if (files.length === 0) throw new Failure(`\`${given}\` has no file that ends in .yaml, .yml or .json`)
  return files
}

function readBytes(file: string, path: string): Uint8Array {
  const { size } = statSync(file)
  if (size > mostBytes) throw new Failure(`${path}: a file has at most ${mostBytes / 1024} KiB`)
  return readFileSync(file)
}

function readObject(path: string, yaml: ReadYaml): Pick<ObjectFile, 'object' | 'repository'> {
  const object = objectOf(path, yaml)
  if (object.kind !== 'organization') return { object, repository: null }
  const { repository = null, ...settings } = object
  if (repository !== null && typeof repository !== 'string')
    throw new Failure(`${path}: write \`repository\` as a text, such as https://github.com/acme/rules`)
  return { object: settings, repository }
}

function objectOf(path: string, yaml: ReadYaml): ObjectFile['object'] {
  const value = JSON.parse(yaml.json) as unknown
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Failure(`${path}: a file has one object, with fields such as \`kind\` and \`name\``)
  const fields = value as Readonly<Record<string, unknown>>
  const { kind = path.split('/').at(-1) === organizationFile ? 'organization' : undefined } = fields
  if (kind === undefined && Array.isArray(fields['steps'])) return workflowOf(fields)
  if (!kinds.some((known) => known === kind))
    throw new Failure(
      `${path}: ${kind === undefined ? 'say in `kind` what it is' : `${yaml.placeOf('kind')}: there is no kind ${JSON.stringify(kind)}`}: ${kinds.map((each) => `\`${each}\``).join(', ')}`,
    )
  return { ...fields, kind: kind as string }
}

/** A definition that stands alone, as `POST /workflows` takes it: its names are those of the workflow. */
function workflowOf(document: Readonly<Record<string, unknown>>): ObjectFile['object'] {
  const { $schema: _, name, slug, description, ...definition } = document
  const names = Object.entries({ name, slug, description }).filter(([, value]) => value !== undefined)
  return { kind: 'workflow', ...Object.fromEntries(names), definition }
}

export const isObjectFile = (name: string): boolean => /\.(ya?ml|json)$/.test(name)

/** A file or folder that is not looked into. */
export const isLeftOut = (name: string): boolean =>
  name === '' || name.startsWith('.') || name === 'node_modules'

/**
 * In a fixed order. Names that begin with a dot are left out, and `node_modules`. An object that is left out for another
 * reason would be deleted, so links to folders are refused.
 */
function filesBelow(given: string): readonly string[] {
  let top: string
  try {
    top = realpathSync(given)
  } catch {
    throw new Failure(`there is no \`${given}\`: name a folder or a file`)
  }
  if (statSync(top).isFile()) return [top]
  const found: string[] = []
  const look = (folder: string, depth: number): void => {
    if (depth > mostDeep) throw new Failure(`\`${folder}\` is nested too deep: make the folders flatter`)
    for (const name of readdirSync(folder).toSorted()) {
      if (isLeftOut(name)) continue
      const place = join(folder, name)
      const kind = lstatSync(place)
      if (kind.isDirectory()) look(place, depth + 1)
      else if (kind.isSymbolicLink() && isFolder(place))
        throw new Failure(`\`${place}\` is a link to a folder: put the folder itself there`)
      else if (!isObjectFile(name)) continue
      else if (kind.isSymbolicLink()) found.push(linked(place, top))
      else if (kind.isFile()) found.push(place)
      if (found.length > mostFiles)
        throw new Failure(`the folder has more than ${mostFiles} files: name a smaller one`)
    }
  }
  look(top, 0)
  return found
}

function isFolder(place: string): boolean {
  try {
    return statSync(place).isDirectory()
  } catch {
    // It leads nowhere.
    return false
  }
}

/** Throws unless the link stays in the folder. */
function linked(place: string, top: string): string {
  let target: string | null = null
  try {
    target = realpathSync(place)
  } catch {
    // It leads nowhere.
  }
  if (target === null || !target.startsWith(`${top}${sep}`) || !statSync(target).isFile())
    throw new Failure(`\`${place}\` is a link that leads out of the folder: put the file itself there`)
  return place
}

/** The folder with `.git`, at the given one or above it; else the given one. */
export function repositoryRoot(given: string): string {
  const start = realpathSync(given)
  const first = statSync(start).isDirectory() ? start : dirname(start)
  for (let folder = first; ; folder = dirname(folder)) {
    if (hasGit(folder)) return folder
    if (dirname(folder) === folder) return first
  }
}

function hasGit(folder: string): boolean {
  try {
    lstatSync(join(folder, '.git'))
    return true
  } catch {
    return false
  }
}

/** The details of a refusal whose paths begin with that of a file, each with its line. */
export function placed(details: readonly Detail[], files: readonly ObjectFile[]): string[] {
  return details.map(({ path, message }) => {
    const file = files.find((each) => path.startsWith(each.path))
    const rest = file === undefined ? '' : path.slice(file.path.length).replace(/^[.:/ ]+/, '')
    const place = rest === '' ? null : (file?.yaml.placeOf(rest) ?? null)
    return file === undefined
      ? `${path}: ${message}`
      : `${file.path}: ${place === null ? '' : `${place}: `}${rest === '' ? '' : `${rest}: `}${message}`
  })
}
