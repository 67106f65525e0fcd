import type { Kept } from './kept.ts'

/* The page of the stand-ins: what was posted, newest first. */

const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (sign) => `&#${sign.codePointAt(0)};`)

/** Our tools mark what they write, in a comment that GitHub does not show. */
const plain = (text: string): string => escaped(text.replaceAll(/<!--.*?-->/gs, '').trim())

const issueOf = ({ repo, number, title, body, labels, created_at: at, comments }: Kept['issues'][number]) => `
  <article id="${escaped(`${repo}/issues/${number}`)}">
    <h3>${escaped(repo)} #${number}: ${escaped(title)}</h3>
    <p><small>${escaped(at)}${labels.length === 0 ? '' : `, ${escaped(labels.join(', '))}`}</small></p>
    <pre>${plain(body)}</pre>
    ${comments.map((each) => `<p><small>Comment, ${escaped(each.created_at)}</small></p><pre>${plain(each.body)}</pre>`).join('')}
  </article>`

function messageOf({ channel, ts, thread_ts: thread, text }: Kept['messages'][number], { channels }: Kept) {
  const name = channels.find(({ id }) => id === channel)?.name ?? channel
  const at = new Date(Number(ts) * 1_000).toISOString()
  return `
  <article>
    <h3>${channel.startsWith('D') ? 'To' : '#'}${escaped(channel.startsWith('D') ? ` ${channel}` : name)}</h3>
    <p><small>${at}${thread === null ? '' : ', in a thread'}</small></p>
    <pre>${escaped(text)}</pre>
  </article>`
}

const listOf = (all: readonly string[]): string =>
  all.length === 0 ? '<p>Nothing was posted yet.</p>' : all.toReversed().join('')

export const pageOf = (kept: Kept): string => `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Stand-ins for GitHub and Slack</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:48rem;margin:0 auto;padding:1rem}
article{border:1px solid #999;border-radius:.5rem;padding:0 1rem;margin:1rem 0}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font:inherit}</style></head>
<body><main>
<h1>Stand-ins for GitHub and Slack</h1>
<p>They are for development: what Countersign posts with their connections comes here, and nothing leaves this
machine. They keep the newest 500 entries of each kind.</p>
<h2>GitHub: issues</h2>${listOf(kept.issues.map(issueOf))}
<h2>Slack: messages</h2>${listOf(kept.messages.map((each) => messageOf(each, kept)))}
</main></body></html>
`
