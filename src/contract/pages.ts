/* Paths of console pages. Mails, answers of the API and other pages contain links to these pages. */

/** This page redirects each person to the first list that the person's role may read. */
export const homePath = '/console/'
export const signInPath = '/console/sign-in'
export const signUpPath = '/console/sign-up'
/**
 * With `?token=`, the page sets a new password. Without a token, the page sends a mail with a link. This link contains
 * a token.
 */
export const resetPath = '/console/reset-password'
export const confirmPath = '/console/confirm-address'
export const invitationPath = '/console/invitation'
/**
 * On this page, a person adds a second factor. A person who has a second factor, but signed in without it, proves the
 * factor here.
 */
export const secondFactorPath = '/console/second-factor'
export const accountPath = '/console/account'
export const inboxPath = '/console/approvals'
