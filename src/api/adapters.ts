import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { projectRoot } from '../shared/project-root.ts'

/*
 * The adapters: programs in Python for agents' machines. Administrators download each one as one file, compare its
 * checksum and read it. So the modules in `adapters/countersign` are packed into a text: after the program's own
 * docstring comes `adapters/importer.py`, which imports modules from this file, and then each module as a string.
 */

const programs = { 'service_hook.py': 'hook', 'service_mcp.py': 'gateway' } as const
type AdapterName = keyof typeof programs
export const adapterNames = Object.keys(programs) as AdapterName[]

export interface Adapter {
  readonly name: AdapterName
  readonly bytes: Buffer
  readonly sha256: string
}

const sources = join(projectRoot(), 'adapters')
/** `npm run build` writes the adapters here. */
const built = fileURLToPath(new URL('../adapters/', import.meta.url))

let known: ReadonlyMap<string, Adapter> | undefined

/** The adapters of this version. Made at the first call, and kept in memory. */
export function adapters(): ReadonlyMap<string, Adapter> {
  known ??= new Map(
    adapterNames.map((name): [string, Adapter] => {
      const bytes = existsSync(built) ? readFileSync(join(built, name)) : Buffer.from(packed(name))
      return [name, { name, bytes, sha256: createHash('sha256').update(bytes).digest('hex') }]
    }),
  )
  return known
}

/** Returns an adapter's text. Equal modules give equal texts. */
export function packed(name: AdapterName): string {
  const program = `countersign/${programs[name]}`
  const [head = '', ending = ''] = read(`${program}/__main__.py`).split(/(?<=^"""\n)\n(?=import )/m)
  const modules = [...modulesOf('countersign/shared'), ...modulesOf(program)].map((path) => {
    const text = read(path)
    if (/'''|\r/.test(text)) throw new Error(`adapters/${path} has ''' or a carriage return`)
    return `${`# --- ${path} `.padEnd(120, '-')}\n\nSOURCES["${path}"] = r'''${text}'''\n`
  })
  return [head, read('importer.py'), ...modules, ending].join('\n\n')
}

const read = (path: string): string => readFileSync(join(sources, path), 'utf8')

function modulesOf(folder: string): string[] {
  const files = readdirSync(join(sources, folder), { recursive: true, encoding: 'utf8' })
  return files
    .filter((file) => file.endsWith('.py') && file !== '__main__.py')
    .map((file) => `${folder}/${file.replaceAll('\\', '/')}`)
    .sort()
}
