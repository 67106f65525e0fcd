import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runBlocks, shellBlocks } from '../support/shell-blocks.ts'
import { startTestServer } from './server.ts'

/**
 * Runs a page of docs as its reader would, against a server and bootstrap.json of its own: the shell blocks of `page`
 * after the README's first, which defines what they use. Answers what each of them printed.
 */
export async function readDocsPage(page: string): Promise<string[]> {
  const server = await startTestServer()
  const folder = mkdtempSync(join(tmpdir(), 'reader-'))
  try {
    mkdirSync(join(folder, '.data'))
    const boot = { base_url: server.base, ...server.identities }
    writeFileSync(join(folder, '.data', 'bootstrap.json'), JSON.stringify(boot))
    const [setup = ''] = shellBlocks('README.md', 'A first workflow, with curl')
    return await runBlocks([setup, ...shellBlocks(page)], folder)
  } finally {
    await server.close()
    rmSync(folder, { recursive: true })
  }
}
