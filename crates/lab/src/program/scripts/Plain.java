// Prints the page of a URL with Java's HttpURLConnection: getaddrinfo, then a connect that waits.

import java.io.InputStream;
import java.net.URI;

public class Plain {
    public static void main(String[] words) throws Exception {
        try (InputStream page = URI.create(words[0]).toURL().openStream()) {
            page.transferTo(System.out);
        }
        System.out.flush();
    }
}
