import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { emulatorToken, startEmulator, type Emulator } from '../../support/emulators.ts'
import { startGoogle } from '../../support/google/emulator.ts'
import { jiraCredential, jiraWith, startJira } from '../../support/jira-emulator.ts'
import { startScriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { shownOutputs } from '../../support/shell-blocks.ts'
import { startSlack } from '../../support/slack-emulator.ts'
import { startTrello, trelloCredential, trelloWith } from '../../support/trello-emulator.ts'
import { readDocsPage } from '../docs-page.ts'

/* Runs the commands of docs/connections.md, against a stand-in for each service. */

const folder = mkdtempSync(join(tmpdir(), 'reader-'))
const services = new Map<string, Emulator>()
/** Plays the services that have no stand-in: a search returns no results, and a list of models is empty. */
let plain: ScriptedServer

beforeAll(async () => {
  plain = await startScriptedServer()
  plain.answer = () => ({ status: 200, body: { results: [], data: [] } })
  const starting: Readonly<Record<string, Promise<Emulator>>> = {
    github: startEmulator('github'),
    slack: startSlack(),
    google: startGoogle(),
    jira: startJira(jiraWith([])),
    trello: startTrello(trelloWith([])),
    resend: startEmulator('resend'),
  }
  for (const [name, service] of Object.entries(starting)) services.set(name, await service)
})
afterAll(async () => {
  await Promise.all([plain?.close(), ...[...services.values()].map((each) => each.close())])
  rmSync(folder, { recursive: true })
})

/** The shell variables that a reader would set instead of the page's examples. */
function variables(): string {
  const at = (name: string): string => (services.get(name) as Emulator).url
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })
  const keyFile = {
    type: 'service_account',
    client_email: 'robot@acme.iam.gserviceaccount.com',
    private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    token_uri: `${at('google')}/token`,
  }
  const path = join(folder, 'key.json')
  writeFileSync(path, JSON.stringify(keyFile))
  const all = {
    GITHUB_URL: at('github'),
    GITHUB_TOKEN: emulatorToken,
    SLACK_URL: at('slack'),
    SLACK_TOKEN: emulatorToken,
    RESEND_URL: at('resend'),
    RESEND_KEY: emulatorToken,
    SEARXNG_URL: plain.url,
    ANTHROPIC_URL: plain.url,
    ANTHROPIC_KEY: 'key',
    JIRA_EMAIL: jiraCredential.email,
    JIRA_TOKEN: jiraCredential.token,
    TRELLO_URL: at('trello'),
    TRELLO_KEY: trelloCredential.key,
    TRELLO_TOKEN: trelloCredential.token,
    GOOGLE_KEY_FILE: path,
  }
  return Object.entries(all)
    .map(([name, value]) => `${name}=${value}`)
    .join('\n')
}

test('the page’s commands do what it says', async () => {
  const at = (name: string): string => (services.get(name) as Emulator).url
  const env = { TRACKER_BASE_URL: at('jira'), GOOGLE_BASE_URL: at('google') }
  const [, ...outputs] = await readDocsPage('docs/connections.md', { before: variables(), env })
  expect(outputs).toHaveLength(12)
  expect(outputs).toEqual(shownOutputs('docs/connections.md'))
})
