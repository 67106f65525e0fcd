import { constants } from 'node:fs'
import { lstat, open, realpath, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { ToolError } from '../kit/executor.ts'

/*
 * Opens only files below one folder, even while somebody replaces folders with links.
 * Node has no openat(2). On Linux, opening `/proc/self/fd/N/name` is the same: the kernel goes from the open folder N
 * to `name` without resolving a path again, and O_NOFOLLOW refuses a link. Each part is opened from the descriptor of
 * its folder, so there is no time between check and use. Other systems open the file first, and then compare it with
 * the file at the expected path. This finds links, and swaps of folders unless they are undone and repeated at exactly
 * the right moments.
 * Hard links and mounts inside the folder are followed, because the operator makes them.
 */

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants
const directoryFlags = O_RDONLY | O_DIRECTORY | O_NONBLOCK
// Otherwise a FIFO without a writer would block the worker. It is refused after fstat.
const fileFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY

/** By default the system decides. Tests choose. */
export type OpenMethod = 'descriptors' | 'compare'

/**
 * The caller closes the handle. Throws `file_outside_root` if the path is absolute, contains `..`, is not in its plain
 * form or goes through a link, `file_not_found`, and `file_not_readable` for a folder, a device, a missing permission,
 * or an I/O error, which alone is retryable.
 */
export async function openBelow(root: string, path: string, method?: OpenMethod): Promise<FileHandle> {
  const parts = splitPath(path)
  const chosen = method ?? ((await hasDescriptorPaths()) ? 'descriptors' : 'compare')
  const file = await (chosen === 'descriptors' ? openByDescriptors(root, parts) : openAndCompare(root, parts))
  try {
    if (!(await file.stat()).isFile()) throw notRegular()
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/** Rules compare the path as text, so `./hr/pay.csv` and `x/../hr/pay.csv` must not name `hr/pay.csv`. */
function splitPath(path: string): string[] {
  const parts = path.split('/')
  // First, because a NUL ends a path for the kernel, and a backslash is a separator on some systems.
  if (path.includes('\0') || path.includes('\\'))
    throw outside('has a NUL or a backslash; separate its parts with `/`')
  if (path.startsWith('/')) throw outside('is absolute; give it relative to the shared folder')
  if (parts.includes('..')) throw outside('contains `..`; only files below the shared folder can be read')
  if (parts.some((part) => part === '' || part === '.')) {
    throw outside('is not in its plain form; leave out `.`, repeated and trailing slashes')
  }
  return parts
}

async function openByDescriptors(root: string, parts: readonly string[]): Promise<FileHandle> {
  let folder = await openRoot(root)
  for (const [index, part] of parts.entries()) {
    const last = index === parts.length - 1
    try {
      const here = `/proc/self/fd/${folder.fd}/${part}`
      await refuseSpecial(here, last)
      const next = await open(here, last ? fileFlags : directoryFlags | O_NOFOLLOW)
      await folder.close()
      folder = next
    } catch (error) {
      await folder.close()
      throw explain(error)
    }
  }
  return folder
}

async function openAndCompare(root: string, parts: readonly string[]): Promise<FileHandle> {
  let file: FileHandle | undefined
  try {
    const realRoot = await realpath(root).catch(rootUnusable)
    const expected = join(realRoot, ...parts)
    // Refuses a link, and another spelling (case, Unicode form) that the file system takes for the same name.
    const plain = async () => (await realpath(expected)) === expected
    if (!(await plain())) throw throughLink()
    await refuseSpecial(expected, true)
    file = await open(expected, fileFlags)
    const opened = await file.stat({ bigint: true })
    const same = async () => {
      const named = await lstat(expected, { bigint: true })
      return opened.dev === named.dev && opened.ino === named.ino
    }
    if (!(await plain()) || !(await same()) || !(await plain()) || !(await same())) throw throughLink()
    return file
  } catch (error) {
    await file?.close()
    throw explain(error)
  }
}

/** It may be a link, since the operator chose it. */
async function openRoot(root: string): Promise<FileHandle> {
  return open(root, directoryFlags).catch(rootUnusable)
}

/** Even opening a device can have effects. Against swaps, O_NOFOLLOW, O_DIRECTORY and fstat protect, not this. */
async function refuseSpecial(path: string, last: boolean): Promise<void> {
  const found = await lstat(path)
  if (found.isSymbolicLink()) throw throughLink()
  if (last && !found.isFile()) throw notRegular()
}

let descriptorPaths: Promise<boolean> | undefined
function hasDescriptorPaths(): Promise<boolean> {
  descriptorPaths ??= lstat('/proc/self/fd').then(
    (found) => found.isDirectory(),
    () => false,
  )
  return descriptorPaths
}

/** The message contains no path, since a path is a parameter's value. */
function explain(error: unknown): unknown {
  if (error instanceof ToolError) return error
  switch ((error as NodeJS.ErrnoException).code) {
    case 'ENOENT':
    case 'ENOTDIR':
    case 'ENAMETOOLONG':
      return new ToolError('file_not_found', 'there is no such file in the shared folder; check `path`', {
        cause: bare(error),
      })
    case 'ELOOP':
      return throughLink()
    case 'EISDIR':
    case 'ENXIO':
    case 'ENODEV':
      return notRegular()
    case 'EACCES':
    case 'EPERM':
      return new ToolError(
        'file_not_readable',
        'the service may not read this file; ask the owner of the shared folder for read permission',
        { cause: bare(error) },
      )
    default:
      return unreadable(error)
  }
}

/** It can pass: too many open files, a failing disk. */
export function unreadable(cause: unknown): ToolError {
  return new ToolError('file_not_readable', 'the file cannot be read at the moment; try again', {
    retryable: true,
    cause: bare(cause),
  })
}

function rootUnusable(cause: unknown): never {
  throw new ToolError(
    'file_not_readable',
    'the shared folder cannot be opened; set FILE_ROOT to a folder that exists and that the service may read',
    { cause: bare(cause) },
  )
}

/** The file system's message repeats the path. */
function bare(error: unknown): Error {
  return new Error((error as NodeJS.ErrnoException).code ?? 'no code')
}

const outside = (problem: string) => new ToolError('file_outside_root', `\`path\` ${problem}`)
const throughLink = () => outside('goes through a link; only files that lie in the shared folder can be read')
const notRegular = () => new ToolError('file_not_readable', '`path` is a folder or a device; name a file')
