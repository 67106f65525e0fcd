import type { FunctionComponent } from 'preact'

/**
 * A part of a page that the browser continues (browser/islands.ts): the server renders it, and the script hydrates the
 * same component with the same props, so they must be JSON. Without the script, what the server rendered must be enough
 * for the main act of the page.
 */
export function Island<Props extends object>({ of, props }: { of: FunctionComponent<Props>; props: Props }) {
  const Component = of
  return (
    <div class="island" data-island={of.name} data-props={JSON.stringify(props)}>
      <Component {...props} />
    </div>
  )
}
