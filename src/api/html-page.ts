import { createHash } from 'node:crypto'
import type { Response } from 'express'

const style = `body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h2{margin-top:2rem}a{color:#0550ae}code,pre{font:14px/1.5 ui-monospace,monospace}pre{background:#f3f4f6;padding:.75rem 1rem;overflow-x:auto}
table{border-collapse:collapse;margin:.5rem 0}th,td{text-align:left;padding:.25rem 1rem .25rem 0;border-bottom:1px solid #ddd;vertical-align:top}`

/**
 * Allows only the style sheet above. The browser checks the hash of the style sheet. Scripts, frames and other sites
 * are blocked.
 */
const policy = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** Returns one static page. `body` is HTML. The caller must have passed every value from outside through `escape`. */
export function htmlPage(title: string, body: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${escape(title)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>${style}</style></head><body>
<h1>${escape(title)}</h1>
${body}
</body></html>
`
}

/** Sends a page of `htmlPage` with a policy that forbids the page to load anything. */
export function sendPage(response: Response, html: string): void {
  response.setHeader('Content-Type', 'text/html; charset=utf-8')
  response.setHeader('Content-Security-Policy', policy)
  response.end(html)
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

export function escape(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => entities[character] as string)
}
