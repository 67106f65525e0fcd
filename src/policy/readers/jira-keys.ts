import { longestText } from './priced.ts'

const project = /^[a-z][a-z\d_]{0,254}$/i
const issue = /^[a-z][a-z\d_]{0,254}-[1-9]\d{0,9}$/i
const ofIssue = /\/(?:browse|issues)\/([^/]+)\/?$/
const ofProject = /\/(?:projects|browse)\/([^/]+)(?:\/|$)/

/** A link to the Jira site `base`, or with null to any, because rules do not know the site of the connection. */
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

/** Such as `OPS-12`, also from a link: `<base>/browse/OPS-12`, `…/issues/OPS-12`, `…/boards/1?selectedIssue=OPS-12`. */
export function issueKeyOf(text: string, base: string | null): string | null {
  const url = linkOf(text, base)
  if (url === null) return upper(text, issue)
  const selected = upper(url.searchParams.get('selectedIssue'), issue)
  return selected ?? upper(ofIssue.exec(url.pathname)?.[1], issue)
}

/** Such as `OPS`, also from a link: `…/projects/OPS/boards/1`. */
export function projectKeyOf(text: string, base: string | null): string | null {
  const url = linkOf(text, base)
  if (url === null) return upper(text, project)
  return upper(ofProject.exec(url.pathname)?.[1], project)
}

/** A part of a key, as in `startswith`, in upper case: `OPS-` for `ops-` and `https://acme.example/browse/ops-`. */
export function partOfKey(text: string): string {
  return text.replace(/^.*\/(?:browse|issues|projects)\/(?=[^/?#]+$)/is, '').toUpperCase()
}
