import { h, type ComponentChild, type ComponentChildren } from 'preact'

/**
 * A part of a page that the script replaces when its version has changed. The version must change with everything that
 * the part shows. An empty part still has its element, because the script replaces only elements that exist.
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
  /** If set, the script checks the page for changes as long as this part is on it. */
  readonly 'data-poll'?: string | undefined
  /** The address of the event stream that announces changes. */
  readonly 'data-events'?: string | undefined
}): ComponentChild {
  return h('div', { class: 'live', 'data-live': name, 'data-version': version, ...rest }, children)
}
