import { format, resolveConfig } from 'prettier'
import { routes } from '../src/api/routes/index.ts'
import { auditEvents } from '../src/contract/audit-events.ts'

export const auditEventsPath = new URL('../docs/reference/audit-events.md', import.meta.url)

/** Returns the page on the events of the audit log, as Markdown. */
export async function auditEventsPage(): Promise<string> {
  const rows = Object.entries(auditEvents)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([type, { when, metadata }]) => {
      const fields = Object.entries(metadata)
        .map(([field, kind]) => (kind === 'text' ? `\`${field}\`` : `\`${field}\` (${kind})`))
        .join(', ')
      const by = routes
        .filter(({ audit }) => audit?.some((each) => each === type))
        .map(({ key }) => `\`${key}\``)
      return `| \`${type}\` | ${when} | ${fields} | ${by.join(', ')} |`
    })
  const text = `# Events of the audit log

<!-- Written by \`npm run openapi\` from src/contract/audit-events.ts and the routes. -->

Every entry has its position, time, organization, actor, action and status, and the hash of the entry before it. Its metadata holds ids,
hashes, counts and names, but no parameter's value and no secret. Besides the fields below it always has \`policy_version\`, and
\`api_key_id\` where a key was used. A field without a kind is text. A flag is true or false, and a list is a list of texts. A field that
says nothing about an event is absent or null. The last column names the routes that append the event; workers and commands append the
others, and some of these too.

| Event | When | Metadata | Routes |
| --- | --- | --- | --- |
${rows.join('\n')}
`
  return format(text, { ...(await resolveConfig(auditEventsPath)), parser: 'markdown' })
}
