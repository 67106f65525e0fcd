/*
 * A parameter can name a repository by a link. Tool policies read only links to github.com. So a policy that limits the
 * repositories refuses every other link. But the connection may lead to another host, such as a GitHub Enterprise
 * server. Only a link to the host of the connection names a repository of the connection.
 */

/**
 * Returns the origin of the web pages that belong to the API at `base`. Example: `https://api.github.com` becomes
 * `https://github.com`.
 */
export function pagesOf(base: string): string {
  const { protocol, host } = new URL(base)
  // On github.com and ghe.com, the host of the API is the host of the pages with `api.` before it.
  const isApart = /^api\.(?:github\.com|[a-z\d-]+\.ghe\.com)$/.test(host)
  return `${protocol}//${isApart ? host.slice('api.'.length) : host}`
}

const linkStart = /^(?:(https?:)\/\/)?((?:[a-z\d-]+\.)*[a-z\d-]+(?::\d+)?|\[[\da-f:]+\](?::\d+)?)(?=[/?#]|$)/i

/**
 * Turns a link to `pages` into the same link to github.com, because tool policies read only links to github.com.
 * Returns null if the link leads to another host. Returns every other text as it is, such as `owner/name`. In
 * `owner/name`, the first part has neither a dot nor a colon, so it is no host.
 */
export function localLink(text: string, pages: string): string | null {
  const { protocol, host } = new URL(pages)
  const [start = '', scheme = protocol, of = ''] = linkStart.exec(text) ?? []
  if (!/[.:]/.test(start)) return text
  const linked = of.toLowerCase()
  if ((host === 'github.com' ? linked.replace(/^www\./, '') : linked) !== host) return null
  return scheme.toLowerCase() === protocol ? `https://github.com${text.slice(start.length)}` : text
}
