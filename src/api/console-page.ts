import type { Config } from '../shared/config.ts'
import { publicBase } from '../shared/config.ts'
import { escape, htmlPage } from './html-page.ts'

/**
 * The page shown until there is a console: it links the API, and shows how to decide the approval of a `console_url`
 * with curl. It shows nothing of the approval itself, since nobody has signed in.
 */
export function consolePage(config: Config, approvalId: string | null): string {
  const base = `${publicBase(config)}/api/v1`
  const links = config.http.docs
    ? '<p>Every route is listed in <a href="/docs">/docs</a> and described in <a href="/openapi.json">/openapi.json</a>.</p>'
    : ''
  return htmlPage(
    'Countersign',
    `<p>There is no console yet: it comes with a later version. Everything it will do can be done through the API.</p>
${links}
<h2>${approvalId === null ? 'Deciding an approval' : `Deciding <code>${escape(approvalId)}</code>`}</h2>
<p>With an API key of a person who may decide it, and who did not ask for it. <code>npm start</code> writes the keys of
its five people to <code>bootstrap.json</code> in the data folder.</p>
<pre>${escape(commands(base, approvalId))}</pre>
<p>Reading an approval decides nothing; to reject it, send the same to <code>reject</code> instead of
<code>approve</code>.</p>`,
  )
}

function commands(base: string, approvalId: string | null): string {
  const list = `# what waits for you
curl -sS -H "Authorization: Bearer $KEY" '${base}/approvals?mine=true&status=pending'
`
  const path = `${base}/approvals/${approvalId ?? '$APPROVAL'}`
  return `KEY=csk_live_...
${approvalId === null ? `${list}APPROVAL=apr_...\n` : ''}
# exactly what would be done
curl -sS -H "Authorization: Bearer $KEY" "${path}"

# approve that one call
curl -sS -X POST "${path}/approve" \\
  -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' -d '{"comment": "fine"}'`
}
