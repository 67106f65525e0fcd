import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Place } from './client.ts'

/*
 * The files of `install --managed` in the folders where clients look for them. Each run has its own /etc and /opt, in a
 * mount namespace of Linux.
 */

/** The folder with the machine files of one run. */
export const machineOf = ({ root }: Pick<Place, 'root'>): string => join(root, 'machine')

/**
 * The home of root in /etc/passwd, which is where the hook looks for it. The process is root in the namespace, so
 * root's key is in this folder.
 */
const homeOfRoot = /^root:(?:[^:]*:){4}([^:]+)/m.exec(readFileSync('/etc/passwd', 'utf8'))?.[1] ?? '/'

/** The key file of the account under which the client's processes run. */
export const keyOf = (place: Pick<Place, 'root'>): string =>
  join(machineOf(place), homeOfRoot, '.countersign', 'key')

const folders = ['/etc', '/opt', homeOfRoot]

/** A command line that runs `words` with the run's own files mounted over the files of the machine. */
export function onMachine(words: readonly string[], place: Pick<Place, 'root'>): readonly string[] {
  const lay = (folder: string): string => {
    const own = machineOf(place) + folder
    mkdirSync(own, { recursive: true })
    return `mount -t overlay overlay -o lowerdir="${own}:${folder}" ${folder}`
  }
  const root = process.getuid?.() === 0 ? [] : ['--map-root-user']
  const script = `${folders.map(lay).join(' && ')} && exec "$@"`
  return ['unshare', '--mount', ...root, 'sh', '-c', script, 'sh', ...words]
}

/**
 * A line for `sh` on the run's machine. `/bin/sh` is bash on many systems. bash reads SHELLOPTS from its environment.
 * With `noexec` bash runs no command.
 */
export const bashAsShell = 'mount --bind "$(readlink -f "$(command -v bash)")" "$(readlink -f /bin/sh)"'

/** Whether a process can mount its own folders here. Systems other than Linux and some containers do not allow it. */
export function canMount(): boolean {
  const root = mkdtempSync(join(tmpdir(), 'countersign-test-'))
  try {
    const [program = '', ...words] = onMachine(['true'], { root })
    return spawnSync(program, words).status === 0
  } finally {
    rmSync(root, { recursive: true })
  }
}

/** Adds members to a JSON file, which need not exist. */
export function change(file: string, more: object): void {
  let known = {}
  try {
    known = JSON.parse(readFileSync(file, 'utf8')) as object
  } catch {
    mkdirSync(dirname(file), { recursive: true })
  }
  writeFileSync(file, JSON.stringify({ ...known, ...more }))
}
