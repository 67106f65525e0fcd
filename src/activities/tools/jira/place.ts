const project = /^[a-z][a-z\d_]{0,254}$/i
const issue = /^[a-z][a-z\d_]{0,254}-[1-9]\d{0,9}$/i

/** The path and query of a link below `base`; null for a plain text and for a link to another site. */
function partsBelow(text: string, base: string): URL | null {
  if (!URL.canParse(text)) return null
  const url = new URL(text)
  const site = new URL(base)
  const isOfSite = url.origin === site.origin && url.username + url.password === ''
  const path = site.pathname.replace(/\/+$/, '')
  return isOfSite && url.pathname.startsWith(`${path}/`) ? url : null
}

const upper = (text: string | undefined | null, form: RegExp): string | null =>
  typeof text === 'string' && form.test(text) ? text.toUpperCase() : null

/**
 * The key of the issue that a text names: `OPS-12`, or a link of the site such as `<base>/browse/OPS-12`,
 * `…/issues/OPS-12` or `…/boards/1?selectedIssue=OPS-12`. null for everything else.
 */
export function issueKeyOf(text: string, base: string): string | null {
  const url = partsBelow(text, base)
  if (url === null) return upper(text, issue)
  const selected = upper(url.searchParams.get('selectedIssue'), issue)
  return selected ?? upper(/\/(?:browse|issues)\/([^/]+)\/?$/.exec(url.pathname)?.[1], issue)
}

/** The key of the project that a text names: `OPS`, or a link of the site such as `…/projects/OPS/boards/1`. */
export function projectKeyOf(text: string, base: string): string | null {
  const url = partsBelow(text, base)
  if (url === null) return upper(text, project)
  return upper(/\/(?:projects|browse)\/([^/]+)(?:\/|$)/.exec(url.pathname)?.[1], project)
}
