/** A provider of an organization can speak SAML 2.0. `client_id` then has our own entity id. */
export const saml = `
alter table sign_in_providers
  add column kind text not null default 'oidc' check (kind in ('oidc', 'saml')),
  add column sso_url text,
  add column certificates text[],
  alter column client_secret_sealed drop not null,
  add check ((kind = 'oidc') = (client_secret_sealed is not null)),
  add check ((kind = 'saml') = (sso_url is not null)),
  add check ((kind = 'saml') = (certificates is not null));
`
