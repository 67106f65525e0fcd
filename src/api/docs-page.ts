import { accessOf, splitKey } from './access.ts'
import type { Route } from './route.ts'

/** A plain listing of every route: one page, no script, nothing from elsewhere. */
export function docsPage(routes: readonly Route[]): string {
  const tags = [...new Set(routes.map((route) => route.tag))]
  const sections = tags.map((tag) => {
    const rows = routes.filter((route) => route.tag === tag).map(row)
    return `<h2>${escape(tag)}</h2>\n<table><thead><tr><th>Route</th><th>What it does</th><th>Scope</th><th>Role</th></tr></thead><tbody>\n${rows.join('\n')}\n</tbody></table>`
  })
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Countersign API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.35rem .75rem .35rem 0;border-bottom:1px solid #ddd;vertical-align:top}
code{white-space:nowrap}</style></head><body>
<h1>Countersign API</h1>
<p>Every path answers below <code>/api/v1</code>, below <code>/v1</code> and bare. Send
<code>Authorization: Bearer &lt;API key&gt;</code>. Schemas of every body are in
<a href="openapi.json">openapi.json</a>.</p>
${sections.join('\n')}
</body></html>
`
}

function row(route: Route): string {
  const access = accessOf(route.key)
  const { method, path } = splitKey(route.key)
  const scope = access.public ? 'none' : (access.scope ?? 'any key')
  const role = access.public ? '' : access.role
  const text = route.description === undefined ? route.summary : `${route.summary}. ${route.description}`
  return `<tr><td><code>${method} ${escape(path)}</code></td><td>${escape(text)}</td><td><code>${scope}</code></td><td>${role}</td></tr>`
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
