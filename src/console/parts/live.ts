import { h, type ComponentChild, type ComponentChildren } from 'preact'

/**
 * Shows a part of a page. The script replaces the part when the part's version has changed. So the version must change
 * with everything that the part shows. An empty part still has its element, because the script replaces only elements
 * that exist.
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
  /**
   * If this attribute is present, the script checks the page for changes. The script stops when no part on the page has
   * the attribute.
   */
  readonly 'data-poll'?: string | undefined
  /** The address of the event stream that announces changes. */
  readonly 'data-events'?: string | undefined
}): ComponentChild {
  return h('div', { class: 'live', 'data-live': name, 'data-version': version, ...rest }, children)
}
