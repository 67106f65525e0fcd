import type { FileHandle } from 'node:fs/promises'
import { extname } from 'node:path'
import { tableOfCsv } from '../../shared/documents/table.ts'
import { ToolError, type Bodies, type ToolBody } from '../kit/executor.ts'
import { openBelow, unreadable } from './sandbox.ts'
import type { tools } from './tools.ts'

export const maxFileSize = 10 * 1024 * 1024

/** All other text files are `text/plain`. */
const mediaTypes: Readonly<Record<string, string>> = {
  '.csv': 'text/csv',
  '.htm': 'text/html',
  '.html': 'text/html',
  '.json': 'application/json',
  '.markdown': 'text/markdown',
  '.md': 'text/markdown',
  '.tsv': 'text/tab-separated-values',
  '.xml': 'application/xml',
  '.yaml': 'application/yaml',
  '.yml': 'application/yaml',
}

/**
 * `size` is in bytes. A byte order mark is not part of `text`. A table that cannot be read or is too large gives
 * `rows_problem` in place of `rows`. Throws `file_not_found`, `file_outside_root`, `file_not_readable`,
 * `file_too_large`, `file_not_text`.
 */
const readFile: ToolBody<'file_read'> = async (call, context) => {
  const { path } = call.params
  const file = await openBelow(context.tools.fileRoot, path)
  try {
    const bytes = await readAll(file, context.signal)
    const extension = extname(path).toLowerCase()
    const text = decode(bytes)
    const media_type = Object.hasOwn(mediaTypes, extension) ? mediaTypes[extension]! : 'text/plain'
    const rows = tables.has(extension) ? await rowsOf(text, context.signal) : {}
    return { output: { path, text, media_type, size: bytes.length, ...rows } }
  } finally {
    await file.close()
  }
}

const tables: ReadonlySet<string> = new Set(['.csv', '.tsv'])

type Rows = Pick<Awaited<ReturnType<typeof readFile>>['output'], 'rows' | 'rows_problem'>

async function rowsOf(text: string, signal: AbortSignal): Promise<Rows> {
  const table = await tableOfCsv(text, signal)
  if (!('rows' in table)) return { rows_problem: table.problem }
  // All cells of the table are text.
  return { rows: table.rows as NonNullable<Rows['rows']> }
}

/** The size from fstat is not enough: a file may grow, and some kinds of files report no size. */
async function readAll(file: FileHandle, signal: AbortSignal): Promise<Buffer> {
  if ((await file.stat()).size > maxFileSize) throw tooLarge()
  const chunks: Buffer[] = []
  let total = 0
  for (;;) {
    signal.throwIfAborted()
    const buffer = Buffer.allocUnsafe(64 * 1024)
    const { bytesRead } = await file.read(buffer, 0, buffer.length, null).catch((error: unknown) => {
      throw unreadable(error)
    })
    if (bytesRead === 0) return Buffer.concat(chunks, total)
    total += bytesRead
    if (total > maxFileSize) throw tooLarge()
    chunks.push(buffer.subarray(0, bytesRead))
  }
}

function decode(bytes: Buffer): string {
  // Text has no NUL, but PDF, Office and image files that are valid UTF-8 have.
  if (bytes.includes(0)) throw notText()
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw notText()
  }
}

const tooLarge = () =>
  new ToolError('file_too_large', `the file is larger than ${maxFileSize} bytes; split it`)
const notText = () =>
  new ToolError('file_not_text', 'the file is not UTF-8 text; save it as text, Markdown or CSV in UTF-8')

export const run = { file_read: { body: readFile } } satisfies Bodies<typeof tools>
