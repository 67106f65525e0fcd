import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startMailCatcher } from '../../src/stack/mail-catcher.ts'
import { runBlocks, shellBlocks } from '../support/shell-blocks.ts'
import { startTestServer } from './server.ts'

const samples = join(import.meta.dirname, '../../samples')

/**
 * Runs the shell blocks of `page` as a reader would, after `. samples/shell.sh`. The reader has a separate server, a
 * bootstrap.json and a home folder. `before` runs first. The blocks below the heading `last` run at the end, after
 * `after`. `env` contains settings of the server. Returns the output of each block.
 */
export async function readDocsPage(
  page: string,
  {
    before = '',
    after = [],
    last,
    env = {},
  }: { before?: string; after?: readonly string[]; last?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'reader-'))
  mkdirSync(join(folder, '.data'))
  const mail = await startMailCatcher({ dir: join(folder, '.data', 'mail') })
  const server = await startTestServer({ env: { SMTP_URL: mail.url, ...env } })
  try {
    const boot = { base_url: server.base, ...server.identities }
    writeFileSync(join(folder, '.data', 'bootstrap.json'), JSON.stringify(boot))
    symlinkSync(samples, join(folder, 'samples'))
    const first = `export HOME="$PWD"\n${before}\n. samples/shell.sh`
    const ending = last === undefined ? [] : shellBlocks(page, last)
    const blocks = shellBlocks(page).filter((block) => !ending.includes(block))
    return await runBlocks([first, ...blocks, ...after, ...ending], folder)
  } finally {
    await server.close()
    await mail.close()
    rmSync(folder, { recursive: true })
  }
}
