import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startMailCatcher } from '../../src/stack/mail-catcher.ts'
import { runBlocks, shellBlocks } from '../support/shell-blocks.ts'
import { startTestServer } from './server.ts'

/**
 * Runs a page of docs as its reader would, against a server and bootstrap.json of its own: the shell blocks of `page`
 * after the README's first, which defines what they use, in a home of the reader's own. `before` is the reader's own
 * preparation, `after` what they type then, before what stands below the heading `last`. Answers what each block printed.
 */
export async function readDocsPage(
  page: string,
  { before = '', after = [], last }: { before?: string; after?: readonly string[]; last?: string } = {},
): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'reader-'))
  mkdirSync(join(folder, '.data'))
  const mail = await startMailCatcher({ dir: join(folder, '.data', 'mail') })
  const server = await startTestServer({ env: { SMTP_URL: mail.url } })
  try {
    const boot = { base_url: server.base, ...server.identities }
    writeFileSync(join(folder, '.data', 'bootstrap.json'), JSON.stringify(boot))
    const [setup = ''] = shellBlocks('README.md', 'A first workflow, with curl')
    const first = `export HOME="$PWD"\n${before}\n${setup}`
    const ending = last === undefined ? [] : shellBlocks(page, last)
    const blocks = shellBlocks(page).filter((block) => !ending.includes(block))
    return await runBlocks([first, ...blocks, ...after, ...ending], folder)
  } finally {
    await server.close()
    await mail.close()
    rmSync(folder, { recursive: true })
  }
}
