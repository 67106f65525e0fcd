import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { Failure } from './failure.ts'

/* Which server is used, and with which key. The key is never shown, and goes to the server that it is from. */

const stored = z.object({ server: z.url(), api_key: z.string().min(1), key_id: z.string() })
export type Stored = z.infer<typeof stored>

export interface Access {
  readonly server: string
  readonly key: string
  /** null: from the environment. */
  readonly keyId: string | null
}

export function credentialsPath(env: NodeJS.ProcessEnv = process.env): string {
  return join(env['XDG_CONFIG_HOME'] || join(homedir(), '.config'), 'countersign', 'credentials.json')
}

/** null if nobody has logged in here. Throws if others could read the file. */
export function readStored(path = credentialsPath()): Stored | null {
  let text: string
  try {
    const { mode } = statSync(path)
    if ((mode & 0o077) !== 0)
      throw new Failure(`other people can read \`${path}\`: run \`chmod 600 ${path}\`, and log in again`)
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Failure) throw error
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw new Failure(`\`${path}\` cannot be read: ${(error as Error).message}`)
  }
  const read = stored.safeParse(jsonOf(text))
  if (!read.success) throw new Failure(`\`${path}\` is damaged: delete it, and run \`countersign login\``)
  return read.data
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

export function store(access: Stored, path = credentialsPath()): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const making = `${path}.${process.pid}`
  // So that a program that reads meanwhile finds the old file or the new one.
  writeFileSync(making, `${JSON.stringify(access, null, 2)}\n`, { mode: 0o600 })
  chmodSync(making, 0o600)
  renameSync(making, path)
}

export const forget = (path = credentialsPath()): void => rmSync(path, { force: true })

/** Throws if there is none. `COUNTERSIGN_API_KEY` comes first. */
export function accessOf(env: NodeJS.ProcessEnv = process.env): Access {
  const [key, url] = [env['COUNTERSIGN_API_KEY'], env['COUNTERSIGN_URL']]
  if (key) {
    if (!url)
      throw new Failure('set COUNTERSIGN_URL too, to the address of the server of COUNTERSIGN_API_KEY')
    return { server: serverOf(url, 'COUNTERSIGN_URL'), key: key.trim(), keyId: null }
  }
  const known = readStored(credentialsPath(env))
  if (known === null)
    throw new Failure(
      'you are not logged in: run `countersign login --server URL`, or set COUNTERSIGN_URL and COUNTERSIGN_API_KEY',
    )
  if (url && serverOf(url, 'COUNTERSIGN_URL') !== known.server)
    throw new Failure(
      `you are logged in at ${known.server}, and COUNTERSIGN_URL names ${url}: unset it, or run \`countersign login --server ${url}\``,
    )
  return { server: known.server, key: known.api_key, keyId: known.key_id }
}

const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/

/** The address without a slash at the end. Throws if a key would travel in the clear. */
export function serverOf(text: string, source: string): string {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || !['http:', 'https:'].includes(url.protocol) || url.username !== '' || url.search !== '')
    throw new Failure(`\`${text}\` is no address of a server: write ${source} as \`https://HOST\``)
  if (url.protocol === 'http:' && !loopback.test(url.hostname))
    throw new Failure(`the key would travel in the clear: write ${source} with https://`)
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '').replace(/\/api\/v1$/, '')
}
