/** A mail that the service sends in its own name: plain text, one recipient. */
export interface ServiceMail {
  readonly to: string
  readonly subject: string
  readonly text: string
}
