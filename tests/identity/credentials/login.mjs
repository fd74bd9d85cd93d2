// An authorization server for users: login.mjs PORT CLIENTS, the clients as JSON. Prints a line when it listens.
// Its development pages let in whoever names an account.
import Provider from "oidc-provider";

const [port, clients] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const scope = "tools.read tools.write";
const provider = new Provider(issuer, {
  clients: JSON.parse(clients),
  clientAuthMethods: ["none", "client_secret_basic"],
  scopes: ["openid", "offline_access", ...scope.split(" ")],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: true },
    registration: { enabled: true },
    introspection: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, resource) => ({
        scope,
        audience: resource,
        accessTokenTTL: 600,
        accessTokenFormat: resource.startsWith("urn:opaque:") ? "opaque" : "jwt",
      }),
    },
  },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
