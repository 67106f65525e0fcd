import { h, type ComponentChild } from 'preact'
import { Words } from './words.ts'

/** The organization whose data a page shows. Its name alone could be read as the name of the product. */
export const OrganizationName = ({ name }: { readonly name: string }): ComponentChild => [
  'Organization: ',
  h(Words, { text: name }),
]
