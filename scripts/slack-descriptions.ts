import { readFileSync, writeFileSync } from 'node:fs'
import { format } from 'prettier'

/*
 * Writes parts of Slack's published description of its Web API: the arguments of each method that Countersign uses, and
 * the example of the method's answer. The tests check the stand-in and our schemas of Slack's answers with these parts.
 *
 *   git clone https://github.com/slackapi/slack-api-specs
 *   node scripts/slack-descriptions.ts slack-api-specs/web-api/slack_web_openapi_v2.json
 */

/** The last commit of slackapi/slack-api-specs. Slack publishes no newer description. */
const source = 'slackapi/slack-api-specs bc08db49625630e3585bf2f1322128ea04f2a7f3'

const used = [
  'auth.test',
  'chat.postMessage',
  'chat.update',
  'conversations.create',
  'conversations.history',
  'conversations.info',
  'conversations.invite',
  'conversations.list',
  'conversations.open',
  'conversations.replies',
  'conversations.setPurpose',
  'users.info',
]

interface Method {
  readonly parameters?: readonly { readonly name: string }[]
  readonly responses: Readonly<Record<string, { readonly examples?: Readonly<Record<string, unknown>> }>>
}
interface Description {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Method>>>>
}

const [file = 'slack_web_openapi_v2.json'] = process.argv.slice(2)
const { paths } = JSON.parse(readFileSync(file, 'utf8')) as Description
const methods = used.map((id) => {
  const [method] = Object.values(paths[`/${id}`] ?? {})
  if (method === undefined) throw new Error(`the description has no method ${id}`)
  return {
    id,
    arguments: (method.parameters ?? []).map(({ name }) => name),
    answer: method.responses['200']?.examples?.['application/json'],
  }
})
const path = new URL('../test/support/slack-described.json', import.meta.url)
writeFileSync(path, await format(JSON.stringify({ source, methods }), { parser: 'json', printWidth: 110 }))
