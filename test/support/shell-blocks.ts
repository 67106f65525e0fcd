import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

/* Runs shell blocks of the documentation word for word in one shell, as a reader of the page types them. */

const textOf = (page: string): string => readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8')

/**
 * Returns the `sh` blocks of a page in the repository. With `heading`, returns only the blocks below this second-level
 * heading.
 */
export function shellBlocks(page: string, heading?: string): string[] {
  const text = textOf(page)
  const section = heading === undefined ? text : (text.split(`\n## ${heading}\n`)[1] ?? '').split('\n## ')[0]
  return [...(section ?? '').matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = '']) => block)
}

/**
 * Returns the trimmed outputs that a page shows below its `sh` blocks. A block that prints nothing has no output on the
 * page.
 */
export function shownOutputs(page: string): string[] {
  const blocks = textOf(page).matchAll(/^```sh\n.*?^```\n\n```\n(.*?)^```$/gms)
  return [...blocks].map(([, output = '']) => output.trim())
}

/**
 * Runs the blocks in the folder. Returns the trimmed output of each block. `dataDir` is the variable `DATA_DIR` of the
 * shell. Throws if a command fails or writes to standard error.
 */
export async function runBlocks(blocks: readonly string[], folder: string, dataDir = ''): Promise<string[]> {
  const cut = '=== next block ==='
  const temporary = mkdtempSync(join(tmpdir(), 'reader-'))
  try {
    const { stdout, stderr } = await promisify(execFile)(
      'bash',
      // For a child process, Node uses a socket as standard input. Without --norc, bash would then consider itself a
      // remote shell and read /etc/bash.bashrc.
      ['--norc', '-e', '-u', '-o', 'pipefail', '-c', blocks.join(`\necho '${cut}'\n`)],
      { cwd: folder, timeout: 180_000, env: { ...process.env, DATA_DIR: dataDir, TMPDIR: temporary } },
    )
    if (stderr !== '') throw new Error(stderr)
    return stdout.split(`${cut}\n`).map((text) => text.trim())
  } finally {
    rmSync(temporary, { recursive: true })
  }
}
