import { normalized } from './unicode.ts'

const id = /^[CGDUW][A-Z\d]{7,20}$/
/** A link to a channel, or to a message in it. The link to a reply names the channel again: `?thread_ts=…&cid=…`. */
const archive =
  /^https:\/\/[a-z\d-]+(?:\.enterprise)?\.slack\.com\/archives\/([CGD][A-Z\d]{7,20})(?:\/p\d{1,20})?\/?(?:\?thread_ts=\d{1,20}\.\d{1,20}&cid=\1)?$/
/**
 * A link of Slack's web app. Up to four more parts may follow the channel. Each part is a view such as `details`, the
 * id of a person or a file, or a thread of this same channel.
 */
const client =
  /^https:\/\/app\.slack\.com\/client\/[TE][A-Z\d]{7,20}\/([CGD][A-Z\d]{7,20})(?:\/(?:[a-z_]{1,40}|[UWF][A-Z\d]{7,20}|\1-\d{1,20}\.\d{1,20})){0,4}\/?$/
/** A channel's name: lower-case letters, letters of scripts without upper case, digits, `-` and `_`. */
const called = /^#?([\p{Ll}\p{Lo}\p{Lm}\p{M}\p{Nd}_-]{1,80})$/u

/**
 * Returns the channel that a text names, in the form that policies use: `@me`, an id, or `#name`. For a link, returns
 * the id in the link. Returns null for every other text, e.g. a name with full-width letters. A name never equals an
 * id, because only Slack knows which channel has which name.
 */
export function channelOf(text: string): string | null {
  if (text === '@me' || id.test(text)) return text
  const linked = (archive.exec(text) ?? client.exec(text))?.[1]
  if (linked !== undefined) return linked
  const name = called.exec(text)?.[1]
  return name === undefined || normalized(name, 'NFKC') !== name ? null : `#${name}`
}
