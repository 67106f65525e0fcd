import { longestText } from './priced.ts'

const project = /^[a-z][a-z\d_]{0,254}$/i
const issue = /^[a-z][a-z\d_]{0,254}-[1-9]\d{0,9}$/i
const ofIssue = /\/(?:browse|issues)\/([^/]+)\/?$/
const ofProject = /\/(?:projects|browse)\/([^/]+)(?:\/|$)/

/**
 * Reads a text as a link to the Jira site `base`. Returns null for a text that is no link, and for a link to another
 * site. If `base` is null, a link to any site is read. Rules pass null, because they do not know the site of the
 * organization's connection.
 */
function linkOf(text: string, base: string | null): URL | null {
  const url = text.length > longestText ? null : URL.parse(text)
  if (url === null) return null
  if (!/^https?:$/.test(url.protocol) || url.username + url.password !== '') return null
  if (base === null) return url
  const site = new URL(base)
  const path = site.pathname.replace(/\/+$/, '')
  return url.origin === site.origin && url.pathname.startsWith(`${path}/`) ? url : null
}

const upper = (text: string | undefined | null, form: RegExp): string | null =>
  typeof text === 'string' && form.test(text) ? text.toUpperCase() : null

/**
 * Returns the key of an issue, such as `OPS-12`. The text is the key itself, or a link of the site such as
 * `<base>/browse/OPS-12`, `…/issues/OPS-12` or `…/boards/1?selectedIssue=OPS-12`. Returns null for every other text.
 */
export function issueKeyOf(text: string, base: string | null): string | null {
  const url = linkOf(text, base)
  if (url === null) return upper(text, issue)
  const selected = upper(url.searchParams.get('selectedIssue'), issue)
  return selected ?? upper(ofIssue.exec(url.pathname)?.[1], issue)
}

/**
 * Returns the key of a project, such as `OPS`. The text is the key itself, or a link of the site such as
 * `…/projects/OPS/boards/1`. Returns null for every other text.
 */
export function projectKeyOf(text: string, base: string | null): string | null {
  const url = linkOf(text, base)
  if (url === null) return upper(text, project)
  return upper(ofProject.exec(url.pathname)?.[1], project)
}

/**
 * Reads a text that has only a part of a key, such as the value of `startswith` in a rule. Returns this part in upper
 * case: `OPS-` for `ops-` and for `https://acme.example/browse/ops-`.
 */
export function partOfKey(text: string): string {
  return text.replace(/^.*\/(?:browse|issues|projects)\/(?=[^/?#]+$)/is, '').toUpperCase()
}
