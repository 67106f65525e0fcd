import { agentTool } from '../agent-tools.ts'
import type { Json, JsonObject } from '../types.ts'
import { isOneLine } from '../text.ts'
import { plainPath } from './file-paths.ts'

/* The folder of an agent's command: `cwd` of the question, or one of the call's own, perhaps relative to it. */

/** Linux opens no path with more bytes. */
export const longestFolder = 4_096

/** Under these names shell tools take a folder of their own. */
const ownFolders = 'workdir cwd directory dir_path working_directory workingDirectory working_dir'.split(' ')

const windowsRoot = /^(?:[A-Za-z]:[\\/]|\\\\)/

/** An absolute path of Linux, macOS or Windows. */
export const isFolder = (text: string): boolean =>
  text.length <= longestFolder && isOneLine(text) && (text.startsWith('/') || windowsRoot.test(text))

/** Also refuses an argument `scripts`, the name under which approvers see the scripts of the question. */
export function folderIssue(tool: string, input: Readonly<Record<string, unknown>>): string | null {
  if (agentTool(tool)?.isShell !== true) return null
  if (Object.hasOwn(input, 'scripts'))
    return '`scripts` of the tool’s arguments has another meaning here: leave it out'
  const odd = ownFolders.find((name) => {
    const given = Object.hasOwn(input, name) ? input[name] : undefined
    if (given === undefined || given === null) return false
    return typeof given !== 'string' || given.length > longestFolder || !isOneLine(given)
  })
  return odd === undefined
    ? null
    : `\`${odd}\` must be one path in one line, with at most ${longestFolder} characters`
}

/** Without `.`, `..`, empty parts and a last slash; on Windows with `\`. Null if it climbs out or contains NUL. */
export function plainFolder(folder: string): string | null {
  const text = folder.trim()
  if (!windowsRoot.test(text)) return plainPath(text)
  const [, root = '', rest = ''] = /^([A-Za-z]:|\\\\)(.*)$/s.exec(text) ?? []
  const plain = plainPath(`/${rest.replaceAll('\\', '/')}`)
  return plain === null ? null : `${root}${plain.slice(root === '\\\\' ? 1 : 0).replaceAll('/', '\\')}`
}

/** As rules compare it: with a slash at the end, so that `startswith` can ask for what is in it. Null for no path. */
export function folderOf(text: string): string | null {
  const plain = plainFolder(text)
  if (plain === null || plain === '' || /[/\\]$/.test(plain)) return plain
  return windowsRoot.test(plain) || /^[A-Za-z]:$/.test(plain) ? `${plain.toLowerCase()}\\` : `${plain}/`
}

export const partOfFolder = (text: string): string =>
  windowsRoot.test(text) ? text.toLowerCase().replaceAll('/', '\\') : text

/** Only what changes nothing, even if a part is a symbolic link: empty parts, `.` and slashes at the end. */
const tidy = (folder: string): string =>
  windowsRoot.test(folder) ? folder : folder.replaceAll(/\/(?:\.?\/)+/g, '/').replace(/(?<=.)\/\.?$/s, '')

/**
 * Every folder in which a shell call may run, as one text or as `{ 1: …, 2: … }`. A client may ignore the call's own,
 * so its folder is always there too. The disk decides what `..` means behind a symbolic link, so such a folder is there
 * as given and plain. `real` are those that differ without symbolic links.
 */
export function foldersOf(
  input: JsonObject,
  cwd: string | undefined,
  real: readonly string[],
): Json | undefined {
  const own = ownFolders.flatMap((name) => {
    const given = Object.hasOwn(input, name) ? input[name] : undefined
    return typeof given !== 'string' || given.trim() === '' ? [] : [joined(cwd, given)]
  })
  const given = [...(cwd === undefined ? [] : [cwd]), ...own, ...real].map(tidy)
  const [first, ...others] = new Set(given.flatMap((each) => [each, plainFolder(each) ?? each]))
  if (first === undefined || others.length === 0) return first
  return Object.fromEntries([first, ...others].map((each, at) => [at + 1, each]))
}

function joined(cwd: string | undefined, own: string): string {
  if (cwd === undefined || own.startsWith('/') || own.startsWith('~') || windowsRoot.test(own)) return own
  return `${cwd}${windowsRoot.test(cwd) ? '\\' : '/'}${own}`
}
