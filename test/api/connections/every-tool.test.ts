import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { startServices, type Services } from '../../../scripts/samples/services.ts'
import { startScriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { addOrganization } from '../fixtures.ts'
import { startTestServer, type TestServer } from '../server.ts'

/* All tools that the contract names. Each is tested with a stand-in for its service. */

let services: Services
let search: ScriptedServer
let server: TestServer
beforeAll(async () => {
  ;[services, search] = await Promise.all([startServices(), startScriptedServer()])
  search.answer = () => ({ status: 200, body: { results: [] } })
  server = await startTestServer({ env: { TRACKER_BASE_URL: services.jiraUrl } })
})
afterAll(() => Promise.all([server?.close(), search?.close(), services?.close()]))

/** The tools in the order of the contract. */
const named = [
  ...['file_read', 'memory_get', 'memory_set', 'mail_send', 'calendar_create_event', 'slack_send_message'],
  ...['slack_create_channel', 'github_search_code', 'github_get_file', 'github_list_issues'],
  ...['github_get_issue', 'github_list_pull_requests', 'github_create_issue', 'github_comment'],
  ...['jira_search', 'jira_get_issue', 'jira_create_issue', 'jira_comment', 'trello_list_cards'],
  ...['trello_get_card', 'trello_create_card', 'trello_comment', 'docs_read', 'docs_create', 'sheets_read'],
  ...['sheets_append', 'drive_search', 'web_search', 'llm_generate'],
]
/** These tools need no external service. Mails go through the mail server of the installation. */
const ofInstallation = ['file_read', 'memory_get', 'memory_set', 'mail_send']

interface Tool {
  readonly name: string
  readonly available: boolean
  readonly unavailable_because: string | null
}
const toolsOf = async (key: string): Promise<readonly Tool[]> =>
  (await server.call(key, 'GET', '/tools?limit=100')).body.data
const availableTo = async (key: string): Promise<string[]> =>
  (await toolsOf(key)).flatMap(({ name, available }) => (available ? [name] : []))

test('every tool of the contract is available once its service is connected, and to nobody else', async () => {
  const { approver, admin } = server.identities.users
  const stranger = await addOrganization(server.context)
  const before = await toolsOf(approver.api_key)
  expect(before.map(({ name }) => name).toSorted()).toEqual([...named].toSorted())
  for (const { name, unavailable_because } of before.filter(({ available }) => !available))
    expect(unavailable_because).toContain(`POST /tools/${name}/connect`)
  const others = [await availableTo(admin.api_key), await availableTo(stranger.owner.key)]

  const credentials: Readonly<Record<string, object>> = {
    ...services.credentials,
    jira_search: services.jiraCredential,
    mail_send: services.mailCredential,
    web_search: { provider: 'searxng', base_url: search.url },
  }
  for (const [tool, credential] of Object.entries(credentials)) {
    const body = { credential, scope: 'personal' }
    const { status, body: made } = await server.call(approver.api_key, 'POST', `/tools/${tool}/connect`, body)
    expect([tool, status, made.status]).toEqual([tool, 201, 'active'])
  }
  const connected = await toolsOf(approver.api_key)
  expect(connected.filter(({ available }) => !available)).toEqual([])
  expect(connected).toHaveLength(named.length)

  expect([await availableTo(admin.api_key), await availableTo(stranger.owner.key)]).toEqual(others)
  for (const available of others)
    expect(available.filter((name) => !ofInstallation.includes(name))).toEqual([])
})
