import { normalized } from './text-variants.ts'

const id = /^[CGDUW][A-Z\d]{7,20}$/
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
  if (text === '@me' || id.test(text)) return text
  const linked = (archive.exec(text) ?? client.exec(text))?.[1]
  if (linked !== undefined) return linked
  const name = called.exec(text)?.[1]
  return name === undefined || normalized(name, 'NFKC') !== name ? null : `#${name}`
}
