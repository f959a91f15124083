// Prints the page of a URL, or what comes back when a file is sent there, with Java's HttpClient: getaddrinfo, and
// sockets of IPv6 that also reach mapped IPv4 addresses.

import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

public class Fetch {
    public static void main(String[] words) throws Exception {
        HttpClient.Builder client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1);
        String authority = System.getenv("SSL_CERT_FILE");
        if (authority != null) {
            client.sslContext(trusting(Path.of(authority)));
        }
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(words[0]));
        if (words.length > 1) {
            request.POST(HttpRequest.BodyPublishers.ofFile(Path.of(words[1])));
        }
        HttpResponse<InputStream> answer =
            client.build().send(request.build(), HttpResponse.BodyHandlers.ofInputStream());
        if (answer.statusCode() != 200) {
            System.err.println("status " + answer.statusCode());
            System.exit(1);
        }
        OutputStream out = System.out;
        try (InputStream page = answer.body()) {
            page.transferTo(out);
        }
        out.flush();
        // The client's threads would keep the program for a while.
        System.exit(0);
    }

    private static SSLContext trusting(Path file) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream in = Files.newInputStream(file)) {
            store.setCertificateEntry("lab", CertificateFactory.getInstance("X.509").generateCertificate(in));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }
}
