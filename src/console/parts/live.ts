import { h, type ComponentChild, type ComponentChildren } from 'preact'

/**
 * A part of a page that the script replaces when its version has changed. The version must change with everything that
 * the part shows. An element stays where a part is empty, because only parts that are on the page are replaced.
 */
export function Live({
  name,
  version,
  children,
  ...rest
}: {
  readonly name: string
  readonly version: string
  readonly children?: ComponentChildren
  /** Looks for changes as long as the part is on the page. */
  readonly 'data-poll'?: string | undefined
  /** The event stream that tells of changes. */
  readonly 'data-events'?: string | undefined
}): ComponentChild {
  return h('div', { class: 'live', 'data-live': name, 'data-version': version, ...rest }, children)
}
