import { normalized } from './text-variants.ts'
import { longestText } from '../budget.ts'

const slackId = /^[CGDUW][A-Z\d]{7,20}$/
/** To a channel, or to a message in it. The link to a reply names the channel again: `?thread_ts=…&cid=…`. */
const archive =
  /^https:\/\/[a-z\d-]+(?:\.enterprise)?\.slack\.com\/archives\/([CGD][A-Z\d]{7,20})(?:\/p\d{1,20})?\/?(?:\?thread_ts=\d{1,20}\.\d{1,20}&cid=\1)?$/
/** A link of Slack's web app, with up to four parts: a view, a person or file, a thread of this channel. */
const client =
  /^https:\/\/app\.slack\.com\/client\/[TE][A-Z\d]{7,20}\/([CGD][A-Z\d]{7,20})(?:\/(?:[a-z_]{1,40}|[UWF][A-Z\d]{7,20}|\1-\d{1,20}\.\d{1,20})){0,4}\/?$/
/** Lower-case letters, letters of scripts without upper case, digits, `-` and `_`. */
const called = /^#?([\p{Ll}\p{Lo}\p{Lm}\p{M}\p{Nd}_-]{1,80})$/u

/** `@me`, an id (also of a link), `#name` or null. A name equals no id: only Slack knows which it has. */
export function channelOf(text: string): string | null {
  if (text === '@me' || slackId.test(text)) return text
  const linked = (archive.exec(text) ?? client.exec(text))?.[1]
  if (linked !== undefined) return linked
  const name = called.exec(text)?.[1]
  return name === undefined || normalized(name, 'NFKC') !== name ? null : `#${name}`
}

/** Long, or short as in links, where case counts. Only Trello knows which two are the same card. */
const trelloId = /^(?:[\da-f]{24}|[\dA-Za-z]{8})$/
const cardLink = /^https:\/\/(?:www\.)?trello\.com\/c\/([\dA-Za-z]{8})(?:[/?#][!-~]*)?$/
const boardLink = /^https:\/\/(?:www\.)?trello\.com\/b\/([\dA-Za-z]{8})(?:[/?#][!-~]*)?$/

const idIn = (text: string, link: RegExp): string | null => {
  const found = link.exec(text)?.[1] ?? text
  return trelloId.test(found) ? found : null
}

/** The id itself, or that in `https://trello.com/c/<id>/…`. */
export const cardIdOf = (text: string): string | null => idIn(text, cardLink)

/** The id itself, or that in `https://trello.com/b/<id>/…`. */
export const boardIdOf = (text: string): string | null => idIn(text, boardLink)

/** A part of an id, as in `startswith`: `AbC` for `https://trello.com/c/AbC`. */
export const partOfId = (text: string): string =>
  text.replace(/^https:\/\/(?:www\.)?trello\.com\/[bc]\/(?=.)/, '')

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
